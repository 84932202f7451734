"""Lists as profilers and people write them, and what of them doesn't fit the disk."""

from __future__ import annotations

import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascade_server.traces import kernelslist
from cascade_server.traces.kernelslist import (
    MAX_IGNORED,
    KernelsList,
    ListedKernel,
    kernel_id_of,
    list_problem,
    parse_kernelslist,
)
from tests.recordings import CASES, EXPECT


def case_list(case: str) -> str:
    with tarfile.open(CASES / f"{case}.tar") as tar:
        file = tar.extractfile("t/kernelslist.g")
        assert file is not None
        return file.read().decode()


def test_case_c21_only_kernels_count() -> None:
    want = EXPECT["C21"]
    listed = parse_kernelslist(case_list("C21"))
    assert [kernel.file for kernel in listed.kernels] == ["kernel-1.traceg", "kernel-2.traceg"]
    assert [kernel.line_no for kernel in listed.kernels] == [3, 7]
    assert (len(listed.kernels), listed.memcpys) == (want["kernels"], want["memcpy_htod"])
    assert list(listed.ignored) == [line.partition(",")[0] for line in want["ignored_lines"]]
    assert listed.ends_in_memcpy is want["last_command_is_memcpy"]
    assert (listed.unsafe, listed.broken) == ((), ())


def test_case_c25_ids_are_those_traced() -> None:
    listed = parse_kernelslist(case_list("C25"))
    assert [kernel.kernel_id for kernel in listed.kernels] == EXPECT["C25"]["ids"]


@pytest.mark.parametrize(
    ("name", "kernel_id"),
    [
        ("kernel-1.traceg", 1),
        ("kernel-12.traceg.xz", 12),
        ("kernel-3-ctx_0x55d0c0ffee10.traceg.xz", 3),
        ("kernel-3-ctx_0x55d0c0ffee10.trace.xz", 3),
        ("kernel-7.tracez", 7),
        ("kernel-07.traceg", 7),
        ("kernel-7", 7),
        ("kernel-.traceg", None),
        ("kernel-7b.traceg", None),
        ("kernel_7.traceg", None),
        ("kernel-٧.traceg", None),
        ("kernel-" + "9" * 40, None),
        ("xkernel-1", None),
        ("", None),
    ],
)
def test_ids(name: str, kernel_id: int | None) -> None:
    assert kernel_id_of(name) == kernel_id


@pytest.mark.parametrize(
    ("name", "character"),
    [
        ("kernel-1.traceg;reboot", ";"),
        ("kernel-1 .traceg", " "),
        ("kernel-$(id).traceg", "$"),
        ("kernel-1/../x", "/"),
        ("kernel-1.traceg\0", "\0"),
        ("kernelé", "é"),
        ("kernel-1\u202e.traceg", "\u202e"),
    ],
)
def test_names_that_a_shell_would_read_are_unsafe(name: str, character: str) -> None:
    listed = parse_kernelslist(f"kernel-1.traceg\n{name}\n")
    assert [kernel.file for kernel in listed.unsafe] == [name]
    problem = list_problem(listed, {"kernel-1.traceg": 1, name: 1})
    assert problem is not None
    assert problem.startswith(f"Line 2 of kernelslist.g names a kernel file with {character!r} in it:")


def test_what_stands_in_the_list_is_not_quoted() -> None:
    for line in ("kernel.password = s3cret", "MemcpyHtoD s3cret", "kernel: s3cret"):
        problem = list_problem(parse_kernelslist(f"{line}\n"), {})
        assert problem is not None
        assert "s3cret" not in problem


def test_the_context_of_a_kernel() -> None:
    assert ListedKernel("kernel-1-ctx_0x21440c40.traceg.xz", 1, 1).context == "ctx_0x21440c40"
    assert ListedKernel("kernel-1.traceg", 1, 1).context is None


def test_an_indented_line_is_ignored_as_the_simulator_ignores_it() -> None:
    assert parse_kernelslist(" kernel-1.traceg\n\t\n") == KernelsList((), 0, ignored=(" kernel-1.traceg",))


@pytest.mark.parametrize("line", ["MemcpyHtoD", "MemcpyHtoD,zz,1", "MemcpyHtoD,0x1,1;id", "MemcpyHtoDAsync,0x1,1"])
def test_a_broken_copy_is_no_list_to_run(line: str) -> None:
    listed = parse_kernelslist(f"{line}\nkernel-1.traceg\n")
    assert (listed.memcpys, listed.broken, listed.ends_in_memcpy) == (1, (1,), False)
    assert "Line 1 of kernelslist.g is not `MemcpyHtoD" in (list_problem(listed, {"kernel-1.traceg": 1}) or "")


def test_what_the_disk_lacks_is_named() -> None:
    want = EXPECT["C20"]
    listed = parse_kernelslist(case_list("C20"))
    problem = list_problem(listed, {"kernelslist.g": 51, "kernel-1.traceg.xz": 444, "kernel-2.traceg": 574}) or ""
    (missing,) = want["missing"]
    ((old, new),) = want["listed_with_wrong_suffix"].items()
    assert f"{missing} is missing" in problem
    assert f"{old} is missing (but {new} is there" in problem
    assert "kernel-2.traceg" not in problem


def test_problems_are_counted_not_repeated() -> None:
    listed = parse_kernelslist("".join(f"kernel-{i}.traceg\n" for i in (1, 2, 3, 4, 5, 5)))
    problem = list_problem(listed, {"kernel-1.traceg": 0}) or ""
    assert "kernel-1.traceg is empty" in problem
    assert "kernel-2.traceg is missing" in problem
    assert "kernel-4" not in problem
    assert problem.endswith("and 2 more.")
    assert list_problem(parse_kernelslist("MemcpyHtoD,0x0,1\n"), {}) == (
        "kernelslist.g names no kernel, so there is nothing to simulate."
    )
    assert list_problem(listed, {f"kernel-{i}.traceg": 1 for i in range(6)}) is None


def test_a_plain_name_that_lost_its_compression_is_found_too() -> None:
    listed = parse_kernelslist("kernel-1.traceg.xz\n")
    assert "(but kernel-1.traceg is there" in (list_problem(listed, {"kernel-1.traceg": 1}) or "")


def test_a_list_of_any_length_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernelslist, "MAX_KERNELS", 1000)
    listed = parse_kernelslist("kernel-1.traceg\n" * 1005 + "kernel-1;\n")
    assert len(listed.kernels) == 1000
    assert list_problem(listed, {"kernel-1.traceg": 1}) == "kernelslist.g names more than 1,000 kernels."
    assert not parse_kernelslist("kernel-1.traceg\n" * 1000).too_many
    assert len(parse_kernelslist("".join(f"line{i}\n" for i in range(100))).ignored) == MAX_IGNORED
    problem = list_problem(parse_kernelslist("kernel" * 10_000), {})
    assert problem is not None
    assert len(problem) < 200


@given(st.text() | st.text("kernel-019.tracegxzMemcpyHtoD,; \r\n"))
def test_garbage_never_raises(text: str) -> None:
    listed = parse_kernelslist(text)
    lines = [line.rstrip(" \t\r") for line in text.split("\n")]
    assert [kernel.file for kernel in listed.kernels] == [line for line in lines if line.startswith("kernel")]
    assert listed.memcpys == sum(line.startswith("MemcpyHtoD") for line in lines)
    list_problem(listed, {})


@given(st.lists(st.integers(0, 10**18 - 1)), st.sampled_from(["\n", "\r\n"]), st.sampled_from(["", "-ctx_0xab"]))
def test_ids_round_trip(ids: list[int], end: str, context: str) -> None:
    listed = parse_kernelslist("".join(f"kernel-{i}{context}.traceg{end}" for i in ids))
    assert [kernel.kernel_id for kernel in listed.kernels] == ids
    assert listed.unsafe == ()
