"""However a log is cut into portions, whatever is mixed in, wherever a parser is replaced."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cascade_server.simlog import pairs, stats
from cascade_server.simlog.parser import Checkpoint, KernelBlock, LogParser, PartialMark, block_stats
from tests.recordings import case_lines, recording_lines

LOGS = {
    name: recording_lines(name)
    for name in (
        "cut-max-insn-rtx3070",
        "fail-concurrent-one-stream-rtx3070",
        "fail-killed",
        "live-liveness1s-rtx3070",
        "ok-concurrent2-rtx3070",
    )
} | {case: case_lines(case) for case in ("C01", "C05", "C11", "C12", "C13", "C15")}


def progress(parser: LogParser) -> dict[str, Any]:
    return {name: value for name, value in vars(parser).items() if not name.startswith("_")}


def essence(events: list[KernelBlock | PartialMark]) -> list[Any]:
    """Events with the lines of their blocks, which equality leaves out."""
    return [(event, event.lines) if isinstance(event, KernelBlock) else event for event in events]


WHOLE = {}
for _name, _lines in LOGS.items():
    _parser = LogParser()
    WHOLE[_name] = (essence(_parser.feed(_lines)), progress(_parser), _parser.checkpoint)

log_names = st.sampled_from(sorted(LOGS))


@st.composite
def cuts(draw: st.DrawFn) -> tuple[str, list[int]]:
    """A log and some points in it, many of them near the lines that mean something."""
    name = draw(log_names)
    lines = LOGS[name]
    starts = ("kernel_", "gpgpu_silicon", "launching", "GPGPU-Sim: *", "-grid", "thread", "Destroy")
    marks = [at for at, line in enumerate(lines) if line.startswith(starts)]
    near = st.builds(lambda at, off: min(max(at + off, 0), len(lines)), st.sampled_from(marks), st.integers(-2, 3))
    points = draw(st.lists(st.one_of(near, st.integers(0, len(lines))), max_size=12))
    return name, sorted([0, *points, len(lines)])


@given(cuts())
@settings(deadline=None, max_examples=150)
def test_any_portions_give_the_same(case: tuple[str, list[int]]) -> None:
    name, points = case
    lines = LOGS[name]
    parser = LogParser()
    events: list[KernelBlock | PartialMark] = []
    for start, end in pairwise(points):
        events += parser.feed(lines[start:end])
    assert (essence(events), progress(parser), parser.checkpoint) == WHOLE[name]


@given(cuts())
@settings(deadline=None, max_examples=150)
def test_another_parser_goes_on_from_any_checkpoint(case: tuple[str, list[int]]) -> None:
    name, points = case
    lines = LOGS[name]
    parser = LogParser()
    events: list[KernelBlock | PartialMark] = []
    for end in points[1:]:
        events += parser.feed(lines[parser.next_line : end])
        before = progress(parser)
        text = parser.checkpoint.to_json()
        parser = LogParser(Checkpoint.from_json(text))
        assert parser.checkpoint.to_json() == text
        assert progress(parser) == before | {"next_line": parser.next_line}
    assert parser.feed(lines[parser.next_line :]) == []
    assert (essence(events), progress(parser), parser.checkpoint) == WHOLE[name]


PARTS = [
    "kernel_name = ",
    "kernel_launch_uid = ",
    "gpgpu_silicon_slowdown = 5x",
    "gpu_sim_cycle = ",
    "launching kernel name: ",
    " uid: 7",
    "thread block = 0,0,0",
    "-kernel name = ",
    "-grid dim = (",
    "GPGPU-Sim: *** exit detected ***",
    "GPGPU-Sim: ** break due to reaching the maximum",
    "GPGPU-Sim Cycle 5: LIVENESS - uArch: inst.: 5 ",
    "Warp Occupancy Distribution:",
    "Stall:0\tW0_Idle:",
    "single_issue_nums: WS0:",
    "traffic_breakdown_x = 5 {8:",
    "L1D_cache_core[0]: Access = 48, Miss = ",
    "n_cmd=18112 n_nop=",
    "chip skew: ",
    "gpgpu_simulation_rate = ",
    "gpgpu_simulation_time = 0 days, 0 hrs, 0 min, 5 sec (",
    "nan",
    "-inf",
    "1e999",
    "9" * 5_000,
    "5",
    " = ",
    "=",
    ", ",
    "\r",
    "\0",
    "\x1b[31m",
    "\udcff",
    "\ufffd",
    "#2",
    " + others ..." * 7_000,
]
garbage = st.one_of(
    st.text(st.characters(exclude_characters="\n"), max_size=40),
    st.lists(st.sampled_from(PARTS), min_size=1, max_size=5).map("".join),
)


def check(events: list[KernelBlock | PartialMark]) -> None:
    for event in events:
        if isinstance(event, KernelBlock):
            json.dumps(event.stats(), allow_nan=False)
            for count in (event.gpu_sim_cycle, event.gpu_tot_sim_insn):
                assert count is None or abs(count) <= 1 << 63


@given(log_names, st.data())
@settings(deadline=None, max_examples=150)
def test_garbage_between_the_lines_never_raises(name: str, data: st.DataObject) -> None:
    lines = list(LOGS[name][-2_500:])
    for at, line in data.draw(st.lists(st.tuples(st.integers(0, len(lines)), garbage), max_size=15)):
        lines.insert(at, line)
    parser = LogParser()
    events = parser.feed(lines)
    check(events)
    Checkpoint.from_json(parser.checkpoint.to_json())

    at = data.draw(st.integers(0, len(lines)))
    first = LogParser()
    early = first.feed(lines[:at])
    second = LogParser(Checkpoint.from_json(first.checkpoint.to_json()))
    assert essence(early + second.feed(lines[second.next_line :])) == essence(events)
    assert progress(second) == progress(parser)


BLOCKS = [
    event.lines
    for name in ("ok-concurrent2-rtx3070", "live-liveness1s-rtx3070", "C02")
    for event in LogParser().feed(LOGS.get(name) or case_lines(name))
    if isinstance(event, KernelBlock)
]


def forget() -> None:
    for cache in (pairs.keys_of_heads, pairs.values_of_texts, pairs.pairs_of_lines, pairs._forms):
        cache.clear()
    stats._last_read.clear()


@given(st.sampled_from(BLOCKS), st.data())
@settings(deadline=None, max_examples=150)
def test_what_is_remembered_changes_no_result(block: tuple[str, ...], data: st.DataObject) -> None:
    lines = list(block)
    indices = st.integers(0, len(block) - 1)
    for at in data.draw(st.lists(indices, max_size=3)):
        other = data.draw(st.one_of(garbage, indices.map(lambda index: block[index])))
        column = data.draw(st.integers(0, 80))
        lines[at] = data.draw(st.sampled_from([other, lines[at][:column] + other + lines[at][column:], other + "5"]))
    forget()
    want = list(block_stats(lines).items())
    for _ in range(2):
        block_stats(block)
    assert list(block_stats(lines).items()) == want
    assert list(block_stats(lines).items()) == want
    assert list(block_stats(lines).items()) == want


@given(st.lists(garbage, max_size=40))
@settings(deadline=None, max_examples=200)
def test_garbage_alone_never_raises(lines: list[str]) -> None:
    json.dumps(block_stats(lines), allow_nan=False)
    parser = LogParser()
    check(parser.feed(lines))
    assert parser.next_line == len(lines)


TORN = case_lines("C02")


@given(st.integers(0, len(TORN) - 1), st.integers(0, 60), st.sampled_from(["WARNING: xz: slow reader", "\0", "kernel"]))
@settings(deadline=None, max_examples=200)
def test_a_message_in_the_middle_of_a_line_makes_no_wrong_number(at: int, column: int, message: str) -> None:
    """The keys of the block's head have their right value or none."""
    line = TORN[at]
    torn = [*TORN[:at], line[:column] + message, line[column:], *TORN[at + 1 :]]
    right = next(event for event in LogParser().feed(TORN) if isinstance(event, KernelBlock))
    fields = ("gpu_sim_cycle", "gpu_sim_insn", "gpu_ipc", "gpu_tot_sim_cycle", "gpu_tot_sim_insn", "gpu_tot_ipc")
    for block in LogParser().feed(torn):
        assert isinstance(block, KernelBlock)
        got, whole = block.stats(), right.stats()
        for field in fields:
            assert getattr(block, field) in (getattr(right, field), None)
            assert isinstance(got.get(field, ""), str) or got[field] == whole[field]
