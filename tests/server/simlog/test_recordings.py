"""The parser on every recorded log, against values that were extracted independently."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from cascade_server.simlog.parser import KernelBlock, LogParser, PartialMark
from tests.recordings import INDEX, RECORDINGS, TRUTH, recording_bytes, recording_lines

PORTION = 4_000


def parse(lines: list[str], portion: int = PORTION) -> tuple[LogParser, list[KernelBlock], list[PartialMark]]:
    parser = LogParser()
    events = [event for at in range(0, len(lines), portion) for event in parser.feed(lines[at : at + portion])]
    blocks = [event for event in events if isinstance(event, KernelBlock)]
    marks = [event for event in events if isinstance(event, PartialMark)]
    return parser, blocks, marks


def as_truth(block: KernelBlock) -> dict[str, Any]:
    stats = block.stats()
    row = {
        "kernel_name": stats["kernel_name"],
        "kernel_launch_uid": stats["kernel_launch_uid"],
        "kernel_stream_id": block.stream_id,
        "gpu_sim_cycle": block.gpu_sim_cycle,
        "gpu_sim_insn": block.gpu_sim_insn,
        "gpu_ipc": block.gpu_ipc,
        "gpu_tot_sim_cycle": block.gpu_tot_sim_cycle,
        "gpu_tot_sim_insn": block.gpu_tot_sim_insn,
        "gpu_tot_ipc": block.gpu_tot_ipc,
    }
    return {key: value for key, value in row.items() if key != "kernel_launch_uid" or value != ""}


def test_every_recording_has_its_truth() -> None:
    names = {path.name.removesuffix(".log.xz") for path in RECORDINGS.glob("*.log.xz")}
    assert names == set(INDEX) == set(TRUTH)
    assert len(names) == 39


@pytest.mark.parametrize("name", TRUTH)
def test_recording(name: str) -> None:
    truth = TRUTH[name]
    lines = recording_lines(name)
    parser, blocks, _ = parse(lines)

    assert len(lines) == truth["lines"]
    assert [as_truth(block) for block in blocks] == truth["kernels"]
    assert parser.launched == truth["launched"]
    assert parser.exit_detected is truth["exit_detected"]
    assert parser.metrics.sim_rate_ips == truth["last_rate_inst_per_s"]
    assert parser.next_line == len(lines)
    assert parser.kernels_done == len(blocks)
    assert [block.kernel_index for block in blocks] == list(range(len(blocks)))


@pytest.mark.parametrize("name", TRUTH)
def test_blocks_lie_where_they_say_and_their_names_and_uids_agree(name: str) -> None:
    lines = recording_lines(name)
    _, blocks, _ = parse(lines)
    for block, truth in zip(blocks, TRUTH[name]["kernels"], strict=True):
        end = block.first_line + block.line_count
        assert tuple(lines[block.first_line : end]) == block.lines
        assert block.lines[0].startswith("kernel_name = ")
        assert block.lines[-1].startswith("gpgpu_silicon_slowdown = ")
        if block.name_inferred:
            assert truth["kernel_name"] == ""
        else:
            assert block.kernel_name == truth["kernel_name"]
            uid = truth.get("kernel_launch_uid")
            assert block.kernel_launch_uid == (uid if isinstance(uid, int) else None)
        fields = (block.gpu_sim_cycle, block.gpu_sim_insn, block.gpu_ipc, block.gpu_tot_sim_cycle, block.gpu_tot_ipc)
        keys = ("gpu_sim_cycle", "gpu_sim_insn", "gpu_ipc", "gpu_tot_sim_cycle", "gpu_tot_ipc")
        stats = block.stats()
        assert fields == tuple(stats[key] for key in keys)
        assert block.sim_rate_ips == stats["gpgpu_simulation_rate"]
        assert block.sim_time_s == stats["gpgpu_simulation_time"]


_PLAIN = re.compile(r"\s*([^=:\s][^=:]*?)\s*= *([^=]*)")


def naive_first_values(lines: tuple[str, ...]) -> dict[str, str]:
    """`key = value` lines with one `=` and no colon before it, the first of each key, the slow and simple way."""
    first: dict[str, str] = {}
    for line in lines:
        match = _PLAIN.fullmatch(line)
        if match and not line.startswith(("==", "--", "In Dram", "traffic_")):
            first.setdefault(match[1], match[2].strip())
    return first


@pytest.mark.parametrize("name", [name for name in TRUTH if TRUTH[name]["kernels"] and name != "ok-k400-rtx3070"])
def test_stats_hold_every_pair_and_fit_json(name: str) -> None:
    _, blocks, _ = parse(recording_lines(name))
    for block in blocks:
        stats = block.stats()
        json.dumps(stats, allow_nan=False)
        for key, text in naive_first_values(block.lines).items():
            value = stats[key]
            if isinstance(value, str):
                assert value == text
                assert not re.fullmatch(r"-?[0-9.]+[%x!]?", text) or key == "kernel_name"
            elif key == "gpgpu_simulation_time":
                assert text.endswith(f"({value} sec)")
            else:
                assert float(re.match(r"-?[0-9.]+(?:e-?[0-9]+)?", text)[0]) == value  # type: ignore[index]
                assert isinstance(value, int) is ("." not in text and "e-" not in text)
        channels = sum(line.startswith("n_cmd=") for line in block.lines)
        assert sum(key.partition("#")[0] == "bw_util" for key in stats) == channels
        assert f"bw_util#{channels}" in stats


def test_a_whole_log_at_once_gives_the_same_as_line_by_line() -> None:
    lines = recording_lines("fail-killed")
    once, blocks, _ = parse(lines, len(lines))
    single, others, _ = parse(lines, 1)
    assert blocks == others
    assert [block.lines for block in blocks] == [block.lines for block in others]
    assert once.checkpoint == single.checkpoint


@pytest.mark.parametrize(("name", "index"), [("cut-max-cycle", 1), ("cut-max-insn-rtx3070", 2)])
def test_a_limit_marks_the_last_block(name: str, index: int) -> None:
    parser, blocks, marks = parse(recording_lines(name))
    assert marks == [PartialMark(index)]
    assert len(blocks) == index + 1
    assert not any(block.partial for block in blocks)
    assert parser.exit_detected


def test_a_block_cut_by_a_limit_gets_the_name_of_the_kernel_that_ran() -> None:
    _, blocks, _ = parse(recording_lines("cut-max-cycle"))
    cut = blocks[1]
    assert (cut.kernel_name, cut.kernel_launch_uid) == ("_Z11copy_kernelIfEvPKT_PS0_", 2)
    assert cut.name_inferred


def test_only_limits_mark_blocks() -> None:
    marked = [name for name in TRUTH if name != "ok-k400-rtx3070" and parse(recording_lines(name))[2]]
    assert marked == ["cut-max-cycle", "cut-max-insn-rtx3070"]


@pytest.mark.parametrize(
    ("name", "last"), [("ok-concurrent2-rtx3070", (5, 0)), ("ok-streams2-concurrent-rtx3070", (3, 0))]
)
def test_concurrent_kernels_are_not_mixed_up(name: str, last: tuple[int, int]) -> None:
    parser, blocks, _ = parse(recording_lines(name))
    for block in blocks[:-1]:
        assert not block.name_inferred
        assert block.kernel_launch_uid is None
        assert block.kernel_name.count(" ") == 1 or block.kernel_name == ""
    # All but one have had their block when the last comes, so that one is known although none is printed.
    assert blocks[-1].name_inferred
    assert (blocks[-1].kernel_launch_uid, blocks[-1].stream_id) == last
    assert parser.blocks_issued is None
    assert parser.launched == parser.kernels_done == len(blocks)


def test_progress_of_the_running_kernel() -> None:
    lines = recording_lines("ok-vec4-rtx3070")
    parser = LogParser()
    assert (parser.current_kernel, parser.blocks_issued, parser.blocks_total) == (None, None, None)
    launch = next(at for at, line in enumerate(lines) if line.startswith("launching kernel name: "))
    parser.feed(lines[:launch])
    assert (parser.launched, parser.blocks_issued, parser.blocks_total) == (0, None, None)
    seen = set()
    for line in lines[launch:400]:
        parser.feed([line])
        seen.add((parser.current_kernel, parser.kernels_done, parser.blocks_issued, parser.blocks_total))
    assert seen == {("_Z6vecaddPKfS0_Pfi", 0, issued, 16) for issued in range(17)}
    parser.feed(lines[400:])
    assert (parser.blocks_issued, parser.blocks_total, parser.kernels_done) == (None, None, 4)
    assert parser.metrics.gpu_tot_sim_cycle == TRUTH["ok-vec4-rtx3070"]["kernels"][-1]["gpu_tot_sim_cycle"]


def test_progress_of_a_killed_run() -> None:
    parser, _, _ = parse(recording_lines("fail-killed"))
    assert (parser.launched, parser.kernels_done, parser.current_kernel) == (3, 2, "_Z5saxpyfPKfPfi")
    assert (parser.blocks_issued, parser.blocks_total) == (64, 64)


def test_progress_of_several_waves() -> None:
    lines = recording_lines("ok-waves-rtx3070")
    parser = LogParser()
    most = 0
    for line in lines:
        parser.feed([line])
        if parser.launched == 1:
            most = max(most, parser.blocks_issued or 0)
            assert parser.blocks_total in (None, 1_400)
    assert most == 1_400


def test_blocks_are_not_counted_while_several_kernels_run() -> None:
    parser = LogParser()
    for line in recording_lines("ok-concurrent2-rtx3070"):
        parser.feed([line])
        if parser.launched > 1:
            assert parser.blocks_issued is None
            assert parser.blocks_total is None


def test_kernels_whose_headers_were_read_ahead_have_their_own_grids() -> None:
    lines = recording_lines("fail-concurrent-one-stream-rtx3070")
    grids = iter(range(1, 9))
    lines = [f"-grid dim = ({next(grids)},2,3)" if line.startswith("-grid dim") else line for line in lines]
    parser = LogParser()
    totals = []
    for line in lines:
        parser.feed([line])
        if line.startswith("launching kernel"):
            totals.append(parser.blocks_total)
    assert totals == [uid * 6 for uid in (1, 2, 4, 8)]


def test_liveness_gives_the_instructions_so_far() -> None:
    lines = recording_lines("live-liveness1s-rtx3070")
    parser = LogParser()
    seen: list[int | None] = []
    for line in lines:
        parser.feed([line])
        if not seen or seen[-1] != parser.live_insn:
            seen.append(parser.live_insn)
    assert seen[:2] == [None, 0]
    counts = [count for count in seen if count is not None]
    assert counts == sorted(counts)
    assert len(counts) > 5
    assert counts[-1] <= TRUTH["live-liveness1s-rtx3070"]["kernels"][-1]["gpu_tot_sim_insn"]


def test_lines_are_split_at_newlines_alone() -> None:
    log = recording_bytes("fail-no-kernelslist")
    assert "\n".join(recording_lines("fail-no-kernelslist")).encode("utf-8", "surrogateescape") == log.rstrip(b"\n")
