"""Statistics files with their oddities."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascade_server import samples
from cascade_server.contract.models import KernelLaunch
from cascade_server.traces.stats_ctx import parse_stats

HEADER = (
    "kernel id, kernel mangled name, grid_dimX, grid_dimY, grid_dimZ, #blocks, block_dimX, block_dimY, block_dimZ, "
    "#threads, total_insts, total_reported_insts\n"
)
ROW = "kernel-1-ctx_0x55d0.trace.xz, _Z1kPf, 32, 2, 1, 64, 256, 1, 1, 256, 9216,9216\n"
KERNEL = KernelLaunch(kernel_id=1, name="_Z1kPf", grid=(32, 2, 1), block=(256, 1, 1), instructions=9216)


def test_the_bundled_demo() -> None:
    (path,) = (samples.TRACES / samples.DEMO_TRACE / "traces").glob("stats_ctx_*")
    kernels = parse_stats(path.read_text())
    assert [kernel.kernel_id for kernel in kernels] == list(range(1, 13))
    assert kernels[1] == KernelLaunch(
        kernel_id=2, name="_Z8qkv_gemmPKfS0_Pfi", grid=(32, 1, 1), block=(256, 1, 1), instructions=23552
    )


@pytest.mark.parametrize(
    ("row", "instructions"),
    [
        (ROW, 9216),
        (ROW.rstrip("\n"), 9216),
        (ROW.replace("\n", "\r\n"), 9216),
        ("kernel-1.trace, _Z1kPf, 32, 2, 1, 64, 256, 1, 1, 256, \n", None),
        ("kernel-1.trace, _Z1kPf, 32, 2, 1, 64, 256, 1, 1, 256\n", None),
        ("kernel-1.trace, _Z1kPf, 32, 2, 1, 64, 256, 1, 1, 256, 9216,\n", 9216),
        ("kernel-1.trace, _Z1kPf, 32, 2, 1, 64, 256, 1, 1, 256, nan,9216\n", None),
        ("kernel-1.trace, _Z1kPf, 32, 2, 1, 64, 256, 1, 1, 16384, -4,-4\n", None),
    ],
)
def test_rows(row: str, instructions: int | None) -> None:
    assert parse_stats(HEADER + row) == [KERNEL.model_copy(update={"instructions": instructions})]


@pytest.mark.parametrize("tail", [" 9216,9216", " 9216,", " "])
def test_a_name_with_commas_is_split_from_the_right(tail: str) -> None:
    row = f"kernel-1.trace, void f<int, 4>(int, a), 32, 2, 1, 64, 256, 1, 1, 256,{tail}"
    (kernel,) = parse_stats(row)
    assert (kernel.name, kernel.grid, kernel.block) == ("void f<int, 4>(int, a)", (32, 2, 1), (256, 1, 1))
    assert kernel.instructions == (9216 if "9216" in tail else None)


@pytest.mark.parametrize(
    "row",
    [
        "",
        "kernel-1.trace",
        "kernel-1.trace, _Z1kPf, 32, 2, 1, 64, 256",
        "kernel-1.trace, _Z1kPf, x, 2, 1, 64, 256, 1, 1, 256, 1,1",
        "kernel-1.trace, _Z1kPf, -32, 2, 1, 64, 256, 1, 1, 256, 1,1",
        "kernel-1.trace, _Z1kPf, 99999999999999999999, 2, 1, 64, 256, 1, 1, 256, 1,1",
        "memcpy, _Z1kPf, 32, 2, 1, 64, 256, 1, 1, 256, 1,1",
        ",,,,,,,,,,,",
    ],
)
def test_broken_rows_are_skipped(row: str) -> None:
    assert parse_stats(f"{HEADER}{row}\n{ROW}") == [KERNEL]


def test_by_id_and_the_first_of_an_id_counts() -> None:
    rows = [ROW.replace("kernel-1-", f"kernel-{i}-").replace("9216", str(n)) for n, i in enumerate((10, 2, 10))]
    assert [(kernel.kernel_id, kernel.instructions) for kernel in parse_stats("".join(rows))] == [(2, 1), (10, 0)]


def test_only_wanted_kernels_are_kept() -> None:
    rows = "".join(ROW.replace("kernel-1-", f"kernel-{i}-") for i in range(1, 6))
    assert [kernel.kernel_id for kernel in parse_stats(rows, {2, 5, 9})] == [2, 5]
    assert parse_stats(rows, ()) == []


DIMS = st.tuples(*[st.integers(0, 2**31 - 1)] * 3)
KERNELS = st.builds(
    KernelLaunch,
    kernel_id=st.integers(0, 10**18 - 1),
    name=st.from_regex(r"_Z[A-Za-z0-9_]{1,40}", fullmatch=True),
    grid=DIMS,
    block=DIMS,
    instructions=st.none() | st.integers(0, 2**63 - 1),
)


@given(st.lists(KERNELS, unique_by=lambda kernel: kernel.kernel_id))
def test_round_trip(kernels: list[KernelLaunch]) -> None:
    rows = [
        ", ".join(
            map(
                str,
                [f"kernel-{k.kernel_id}.trace", k.name, *k.grid, k.grid[0] * k.grid[1] % 2**31, *k.block, k.block[0]],
            )
        )
        + (", " if k.instructions is None else f", {k.instructions},{k.instructions}")
        for k in kernels
    ]
    assert parse_stats(HEADER + "\n".join(rows)) == sorted(kernels, key=lambda kernel: kernel.kernel_id)


ANY_TEXT = st.text(st.characters())


@given(ANY_TEXT | st.lists(ANY_TEXT | st.just("1"), max_size=15).map(lambda cells: ",".join(["kernel-1", *cells])))
def test_garbage_never_raises(text: str) -> None:
    for kernel in parse_stats(text):
        kernel.model_dump_json()
