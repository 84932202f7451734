"""Which kernel a block is of, and its own cycles, on every recording."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascade_server.services.finished import Finished, finished_kernels, marked_lines
from tests.recordings import TRUTH, recording_bytes, recording_lines

CONCURRENT = ("ok-concurrent2-rtx3070", "ok-streams2-concurrent-rtx3070")
SERIAL = [name for name in TRUTH if TRUTH[name]["kernels"] and name not in CONCURRENT]


def of(name: str) -> list[Finished]:
    return finished_kernels(recording_lines(name))


@pytest.mark.parametrize("name", SERIAL)
def test_kernels_that_run_alone_took_what_their_block_says(name: str) -> None:
    truth = TRUTH[name]["kernels"]
    found = of(name)
    assert [f.own_cycles for f in found] == [t["gpu_sim_cycle"] for t in truth]
    assert not any(f.overlapped for f in found)
    for f, t in zip(found, truth, strict=True):
        if t["kernel_name"]:
            assert (f.uid, f.name) == (t["kernel_launch_uid"], t["kernel_name"])


def test_serial_recordings_are_many() -> None:
    assert sum(len(TRUTH[name]["kernels"]) for name in SERIAL) > 450


def test_concurrent_kernels_by_hand() -> None:
    # From the log: launches, `Destroy streams` and gpu_tot_sim_cycle, subtracted on paper.
    assert [(f.uid, f.own_cycles, f.overlapped) for f in of("ok-concurrent2-rtx3070")] == [
        (2, 5812, True),
        (1, 5863, True),
        (4, 11571 - 5812, True),
        (3, 11868 - 5863, True),
        (6, 17090 - 11571, True),
        (5, 17430 - 11868, True),
    ]
    assert [(f.uid, f.own_cycles, f.overlapped) for f in of("ok-streams2-concurrent-rtx3070")] == [
        (2, 6079, True),
        (1, 6081, True),
        (4, 11752 - 6079, True),
        (3, 11972 - 6081, True),
    ]


@pytest.mark.parametrize("name", CONCURRENT)
def test_each_concurrent_kernel_finishes_once_by_its_name(name: str) -> None:
    log = "\n".join(recording_lines(name))
    launches = {int(uid): kernel for kernel, uid in re.findall(r"^launching kernel name: (\S+) uid: (\d+)", log, re.M)}
    assert sorted((f.uid, f.name) for f in of(name)) == sorted(launches.items())


def test_the_limit_that_cuts_a_kernel_gives_the_kernel_that_ran() -> None:
    assert of("cut-max-cycle")[1] == Finished(2, "_Z11copy_kernelIfEvPKT_PS0_", 2142, overlapped=False)


@pytest.mark.parametrize("name", [*CONCURRENT, "ok-vec4-a100", "fail-killed"])
def test_the_marked_lines_are_enough(name: str) -> None:
    marked = list(marked_lines(recording_bytes(name)))
    assert len(marked) < 60
    assert finished_kernels(marked) == of(name)


def test_a_log_can_be_entered_at_a_block() -> None:
    lines = recording_lines("ok-vec4-rtx3070")
    starts = [i for i, line in enumerate(lines) if line.startswith("kernel_name =")]
    for at, start in enumerate(starts):
        # The block's own launch lies before the entry.
        assert finished_kernels(lines[start:])[1:] == of("ok-vec4-rtx3070")[at + 1 :]


HEAD = ["kernel_name = a ", "kernel_launch_uid = 1 ", "kernel_stream_id = 0", "gpu_tot_sim_cycle = 100"]
LAUNCH = "launching kernel name: a uid: 1 cuda_stream_id: 0"
DESTROY = "Destroy streams for kernel 1: size 0"


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([LAUNCH, DESTROY, *HEAD], Finished(1, "a", 100, overlapped=False)),
        ([LAUNCH, DESTROY, *HEAD[1:]], Finished(1, "a", 100, overlapped=False)),
        ([LAUNCH, *HEAD], Finished(None, None, None, overlapped=False)),
        ([DESTROY, *HEAD], Finished(None, None, None, overlapped=False)),
        ([LAUNCH, DESTROY, *HEAD[:2], HEAD[3]], Finished(None, None, None, overlapped=False)),
        ([LAUNCH, DESTROY, *HEAD[:3]], Finished(1, "a", None, overlapped=False)),
        ([LAUNCH, DESTROY, *HEAD[:3], "gpu_tot_sim_cycle = -3"], Finished(1, "a", None, overlapped=False)),
        ([LAUNCH, DESTROY, *HEAD[:2], "kernel_stream_id = 7", HEAD[3]], Finished(None, None, None, overlapped=False)),
        (["launching kernel name: a[4] b<int> uid: 1 cuda_stream_id: 0", DESTROY, *HEAD],
         Finished(1, "a[4] b<int>", 100, overlapped=False)),
    ],
)  # fmt: skip
def test_what_the_log_does_not_tell_is_none(lines: list[str], found: Finished) -> None:
    assert finished_kernels(lines) == [found]


def test_a_lost_total_is_not_counted_from_an_older_one() -> None:
    second = ["launching kernel name: b uid: 2 cuda_stream_id: 0", "Destroy streams for kernel 2: size 0"]
    block = ["kernel_name = b ", "kernel_launch_uid = 2 ", "kernel_stream_id = 0", "gpu_tot_sim_cycle = 300"]
    assert finished_kernels([LAUNCH, DESTROY, *HEAD[:3], "gpu_tot_sim_WARNING", *second, *block])[1] == Finished(
        2, "b", None, overlapped=False
    )


def test_a_lost_block_is_not_another_kernels() -> None:
    second = ["launching kernel name: b uid: 2 cuda_stream_id: 0", "Destroy streams for kernel 2: size 0"]
    block = ["kernel_name = b ", "kernel_launch_uid = 2 ", "kernel_stream_id = 0", "gpu_tot_sim_cycle = 300"]
    # The total at its launch is lost with the block.
    assert finished_kernels([LAUNCH, DESTROY, *second, *block]) == [Finished(2, "b", None, overlapped=False)]


@given(
    st.lists(
        st.one_of(
            st.sampled_from([LAUNCH, DESTROY, *HEAD, LAUNCH.replace("1", "2"), DESTROY.replace("1", "2")]),
            st.builds(str.__add__, st.sampled_from([h.partition("=")[0] + "=" for h in HEAD]), st.text(max_size=8)),
            st.text(max_size=30),
        ),
        max_size=30,
    )
)
def test_any_lines_are_read(lines: list[str]) -> None:
    for found in finished_kernels(lines):
        assert found.own_cycles is None or found.own_cycles >= 0
        assert (found.uid is None) is (found.name is None)
