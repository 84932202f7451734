"""Where blocks begin and end, what a checkpoint carries, and what broken logs do."""

from __future__ import annotations

import json

import pytest

from cascade_server.simlog import parser as module
from cascade_server.simlog.parser import Checkpoint, KernelBlock, LogParser, PartialMark, Totals
from tests.recordings import case_lines, recording_lines
from tests.server.simlog.test_recordings import parse

LAUNCH = "launching kernel name: {} uid: {} cuda_stream_id: {}"


def block_lines(name: str = "k", uid: object = 1, stream: int = 0, cycles: object = 10, end: bool = True) -> list[str]:
    lines = [
        f"kernel_name = {name} ",
        f"kernel_launch_uid = {uid} ",
        f"kernel_stream_id = {stream}",
        f"gpu_sim_cycle = {cycles}",
        "gpu_sim_insn = 20",
        "gpu_tot_sim_cycle = 30",
        "gpu_tot_sim_insn = 40",
        "gpu_tot_ipc = 1.5",
        "gpgpu_simulation_rate = 7 (inst/sec)",
    ]
    return [*lines, "gpgpu_silicon_slowdown = 9x"] if end else lines


def names(blocks: list[KernelBlock]) -> list[tuple[str, int | None, bool]]:
    return [(block.kernel_name, block.kernel_launch_uid, block.name_inferred) for block in blocks]


def test_a_block_without_an_end_before_another_is_dropped() -> None:
    lines = [LAUNCH.format("a", 1, 0), *block_lines("a", 1, end=False), *block_lines("b", 2)]
    parser, [block], _ = parse(lines)
    assert names([block]) == [("b", 2, False)]
    assert (block.kernel_index, block.first_line, block.line_count) == (0, 10, 10)
    assert parser.kernels_done == 1
    assert parser.blocks_issued is None


@pytest.mark.parametrize(
    "line",
    [
        "Processing kernel ./traces/kernel-2.traceg",
        "-kernel name = b",
        LAUNCH.format("b", 2, 0),
        "thread block = 0,0,0",
        "Destroy streams for kernel 2: size 0",
        "GPGPU-Sim: *** simulation thread exiting ***",
        "GPGPU-Sim: *** exit detected ***",
    ],
)
def test_a_block_whose_last_line_is_broken_ends_before_the_next_phase(line: str) -> None:
    lines = [*block_lines("a", 1, end=False), "gpgpu_silicon_xz: slow reader", "slowdown = 9x", line]
    parser, [block], _ = parse(lines)
    assert names([block]) == [("a", 1, False)]
    assert (block.first_line, block.line_count) == (0, 11)
    assert (parser.kernels_done, parser.next_line) == (1, 12)


def test_a_stray_line_is_no_block() -> None:
    parser, blocks, _ = parse(["kernel_name = stray", "Processing kernel x", *block_lines("a", 1)])
    assert names(blocks) == [("a", 1, False)]
    assert parser.kernels_done == 1


def test_an_end_without_a_block_is_nothing() -> None:
    assert parse(["gpgpu_silicon_slowdown = 9x", "gpgpu_silicon_slowdown = 9x"])[1] == []


def test_a_broken_name_line_costs_only_the_name() -> None:
    lines = [
        LAUNCH.format("a", 1, 0),
        LAUNCH.format("b", 2, 1),
        "kernel_nxz: slow",
        "ame = b ",
        *block_lines("b", 2)[1:],
    ]
    _, [block], _ = parse(lines)
    assert names([block]) == [("b", 2, True)]
    assert (block.first_line, block.gpu_sim_cycle) == (4, 10)


def test_a_name_is_inferred_only_when_one_kernel_is_left() -> None:
    launches = [LAUNCH.format("a", 1, 0), LAUNCH.format("b", 2, 1)]
    lines = [*launches, *block_lines("", "", 1), *block_lines("", "", 0), *block_lines("", "", 0)]
    parser, blocks, _ = parse(lines)
    assert names(blocks) == [("", None, False), ("a", 1, True), ("", None, False)]
    assert parser.blocks_issued is None


def test_several_uids_belong_to_no_single_kernel() -> None:
    lines = [LAUNCH.format("a", 1, 0), LAUNCH.format("b", 2, 1), *block_lines("", "1 2", 1), *block_lines("", 7, 5)]
    assert names(parse(lines)[1]) == [("", None, False), ("", 7, False)]


@pytest.mark.parametrize(
    "cycles", ["", "-nan", "nan", "inf", "60WARNING", "6 0", "1_0", "5.5", "5x", "9" * 400, str(1 << 63)]
)
def test_no_count_comes_from_a_broken_line(cycles: str) -> None:
    _, [block], _ = parse(block_lines(cycles=cycles))
    assert block.gpu_sim_cycle is None
    assert block.gpu_tot_sim_cycle == 30


def test_counts_may_be_negative() -> None:
    assert parse(block_lines(cycles="-5"))[1][0].gpu_sim_cycle == -5


def test_fields_far_from_their_place_are_found() -> None:
    lines = block_lines()
    noise = ["xz: slow reader"] * 100
    _, [block], _ = parse([*lines[:3], *noise, *lines[3:-1], *noise, lines[-1]])
    assert (block.gpu_sim_cycle, block.sim_rate_ips) == (10, 7)


def test_totals_are_those_of_the_last_block() -> None:
    parser = LogParser()
    assert parser.metrics == Totals(None, None, None, None)
    parser.feed(block_lines())
    assert parser.metrics == Totals(30.0, 40.0, 1.5, 7.0)
    parser.feed(["kernel_name = a", "gpgpu_silicon_slowdown = 1x"])
    assert parser.metrics == Totals()


BREAK = "GPGPU-Sim: ** break due to reaching the maximum cycles (or instructions) **"


def test_a_break_line_marks_the_block_before_it_once() -> None:
    parser = LogParser()
    assert parser.feed([BREAK]) == []
    parser.feed([LAUNCH.format("a", 1, 0), *block_lines("a", 1)])
    assert parser.feed([BREAK, BREAK]) == [PartialMark(0)]


def test_a_break_line_after_a_launch_says_nothing_of_an_older_block() -> None:
    parser = LogParser()
    parser.feed([LAUNCH.format("a", 1, 0), *block_lines("a", 1), LAUNCH.format("b", 2, 0)])
    assert parser.feed([BREAK]) == []


def test_a_break_line_inside_a_block_ends_it_as_partial() -> None:
    parser = LogParser()
    [block] = parser.feed([*block_lines("a", 1, end=False), BREAK])
    assert isinstance(block, KernelBlock)
    assert block.partial
    assert parser.feed([BREAK]) == []


def test_a_break_line_after_a_restart_still_marks_the_block() -> None:
    parser = LogParser()
    parser.feed(block_lines("a", 1))
    resumed = LogParser(Checkpoint.from_json(parser.checkpoint.to_json()))
    assert resumed.feed([BREAK]) == [PartialMark(0)]


def test_a_checkpoint_points_at_the_open_block() -> None:
    lines = recording_lines("ok-vec4-rtx2060")
    parser = LogParser()
    start = next(at for at, line in enumerate(lines) if line.startswith("kernel_name = "))
    parser.feed(lines[: start + 100])
    checkpoint = parser.checkpoint
    assert (checkpoint.line, parser.next_line) == (start, start + 100)
    resumed = LogParser(Checkpoint.from_json(checkpoint.to_json()))
    assert resumed.next_line == start
    assert resumed.feed(lines[start:]) == parser.feed(lines[start + 100 :])


def test_a_checkpoint_is_small() -> None:
    parser, _, _ = parse(recording_lines("ok-vec4-h100"))
    text = parser.checkpoint.to_json()
    assert len(text) < 700
    assert text.isascii()
    assert Checkpoint.from_json(text) == parser.checkpoint


def test_a_checkpoint_stays_small_when_kernels_never_come() -> None:
    parser = LogParser()
    parser.feed([f"-kernel name = k{number}" for number in range(10_000)])
    assert len(parser.checkpoint.headers) == module._MAX_HEADERS


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"line": 5}', '{"metrics": {}, "headers": [], "x": 1}'])
def test_no_checkpoint_comes_from_something_else(text: str) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        Checkpoint.from_json(text)


def test_names_with_undecodable_bytes_survive_a_checkpoint() -> None:
    parser = LogParser()
    parser.feed(["-kernel name = a\udcff\0", "-grid dim = (2,3,4)", LAUNCH.format("a\udcff\0", 1, 0)])
    resumed = LogParser(Checkpoint.from_json(parser.checkpoint.to_json()))
    assert resumed.current_kernel == "a\udcff\0"
    assert (resumed.blocks_issued, resumed.blocks_total) == (0, 24)


@pytest.mark.parametrize("portion", [1, 7, 100, 10_000])
def test_an_endless_block_is_given_up(monkeypatch: pytest.MonkeyPatch, portion: int) -> None:
    monkeypatch.setattr(module, "MAX_BLOCK_LINES", 50)
    lines = [
        LAUNCH.format("a", 1, 0),
        *block_lines("a", 1, end=False),
        *["noise"] * 60,
        "gpgpu_silicon_slowdown = 1x",
        LAUNCH.format("b", 2, 0),
        "thread block = 0,0,0",
        *block_lines("b", 2),
    ]
    parser, blocks, _ = parse(lines, portion)
    assert names(blocks) == [("b", 2, False)]
    assert parser.launched == 2
    assert parser.blocks_issued is None
    assert parser.checkpoint.line == len(lines)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("launching kernel name: f(int [4], a: b) uid: 3 cuda_stream_id: 140669595547776", "f(int [4], a: b)"),
        ("launching kernel name: g uid: 3", "g"),
        ("launching kernel name: g", "g"),
        ("launching kernel name: g uid: 3 cuda_stream_id: 0\r", "g"),
    ],
)
def test_launch_lines(line: str, name: str) -> None:
    parser = LogParser()
    parser.feed([line])
    assert (parser.current_kernel, parser.launched, parser.blocks_issued) == (name, 1, 0)


def test_a_torn_launch_line_is_no_launch() -> None:
    parser = LogParser()
    parser.feed(["launching kernel nxz: slow reader", "launching memcpy command : MemcpyHtoD,0x00,4"])
    assert (parser.launched, parser.current_kernel) == (0, None)


def test_a_grid_is_unknown_when_its_header_is_not_there() -> None:
    parser = LogParser()
    parser.feed([LAUNCH.format("a", 1, 0), "thread block = 0,0,0"])
    assert (parser.blocks_issued, parser.blocks_total) == (1, None)


def test_a_header_without_its_grid_doesnt_take_another_ones() -> None:
    parser = LogParser()
    parser.feed(["-kernel name = a", "-grid dim = (4,1,1)", "-kernel name = b", "-grid dim = (4,xz: slow"])
    parser.feed([LAUNCH.format("b", 2, 0)])
    assert parser.blocks_total is None


def test_nothing_runs_after_the_exit() -> None:
    parser = LogParser()
    parser.feed([LAUNCH.format("a", 1, 0), "thread block = 0,0,0", "GPGPU-Sim: *** exit detected ***"])
    assert parser.exit_detected
    assert parser.blocks_issued is None


def test_a_torn_exit_line_is_no_exit() -> None:
    parser = LogParser()
    parser.feed(["GPGPU-Sim: *** exit detec", "x GPGPU-Sim: *** exit detected"])
    assert not parser.exit_detected


def test_a_newline_inside_a_line_shifts_no_number() -> None:
    parser = LogParser()
    events = parser.feed(["a\nkernel_name = x\nb", *block_lines("a", 1)])
    assert [event.first_line for event in events if isinstance(event, KernelBlock)] == [1]
    assert parser.next_line == 11


def test_any_iterable_will_do() -> None:
    lines = case_lines("C01")
    assert LogParser().feed(iter(lines)) == LogParser().feed(tuple(lines)) == LogParser().feed(lines)
    assert LogParser().feed([]) == []


def test_lines_are_left_out_of_comparison_and_repr() -> None:
    [block] = LogParser().feed(block_lines("a", 1))
    assert isinstance(block, KernelBlock)
    assert "gpu_tot_sim_insn = 40" not in repr(block)
    assert json.dumps(block.stats())
