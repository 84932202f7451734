"""The parser on logs in the shape of real problem reports (`tests/data/cases`), against expect.json."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cascade_server.simlog.parser import KernelBlock, PartialMark
from tests.recordings import EXPECT, case_lines
from tests.server.simlog.test_recordings import parse


def stats_json(block: KernelBlock) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(json.dumps(block.stats(), allow_nan=False), parse_constant=refuse)


def test_c01_one_kernel_many_times() -> None:
    want = EXPECT["C01"]
    parser, blocks, marks = parse(case_lines("C01"))
    got = [
        {"uid": b.kernel_launch_uid, "name": b.kernel_name, "cycles": b.gpu_sim_cycle, "insn": b.gpu_sim_insn}
        for b in blocks
    ]
    assert got == want["kernels"]
    assert parser.metrics.gpu_tot_sim_cycle == want["tot_cycles"]
    assert parser.metrics.gpu_tot_sim_insn == want["tot_insn"]
    assert blocks[-1].sim_time_s == want["wall_s"]
    assert all(b.kernel_name == b.kernel_name.strip() and not b.name_inferred for b in blocks)
    assert parser.exit_detected
    assert marks == []


def test_c02_units_and_repeated_keys() -> None:
    want = EXPECT["C02"]
    _, [block], _ = parse(case_lines("C02"))
    stats = block.stats()
    assert (block.gpu_sim_cycle, block.gpu_sim_insn, block.gpu_ipc) == (want["cycles"], want["insn"], want["ipc"])
    assert (stats["gpu_sim_cycle"], stats["gpu_sim_insn"], stats["gpu_ipc"]) == (
        want["cycles"],
        want["insn"],
        want["ipc"],
    )
    assert stats["gpu_occupancy"] == want["occupancy_pct"]
    assert stats["L2_BW"] == want["l2_bw_gb_s"]
    assert stats["gpgpu_simulation_rate"] == block.sim_rate_ips == want["sim_rate_inst_s"]
    assert stats["gpgpu_simulation_rate (cycle/sec)"] == want["sim_rate_cycle_s"]
    assert stats["gpu_total_sim_rate"] == want["total_sim_rate"]
    assert stats["gpgpu_simulation_time"] == block.sim_time_s == want["wall_s"]
    for key in ("L2_cache_stats_breakdown[GLOBAL_ACC_R][HIT]", "L1D_cache_core[0].Reservation_fails"):
        assert stats[key] == want[key]


def test_c03_nan_and_inf() -> None:
    want = EXPECT["C03"]
    parser, [block], _ = parse(case_lines("C03"))
    assert block.gpu_sim_cycle == want["cycles"]
    assert block.gpu_ipc is want["ipc"]
    assert block.gpu_tot_ipc is want["tot_ipc"]
    stats = stats_json(block)
    assert stats["gpu_ipc"] == "-nan"
    assert stats["gpu_tot_ipc"] == "nan"
    assert stats["gpu_occupancy"] == "-nan%"
    assert stats["L2_BW"] == "-nan GB/Sec"
    assert stats["L2_BW_total"] == "inf GB/Sec"
    assert stats["L1D_total_cache_miss_rate"] == "-inf"
    assert parser.exit_detected


@pytest.mark.parametrize("case", ["C05", "C06"])
def test_c05_and_c06_deadlock(case: str) -> None:
    lines = case_lines(case)
    parser, blocks, _ = parse(lines)
    assert len(blocks) == EXPECT[case].get("finished_kernels", 0)
    assert parser.launched == len(blocks) + 1
    assert not parser.exit_detected
    assert parser.next_line == len(lines)
    assert (parser.blocks_issued, parser.blocks_total) == (1, 16)
    found = {value for block in blocks for value in (*block.stats().values(), block.gpu_sim_cycle)}
    assert not found & set(EXPECT["C05"]["do_not_use_as_stats"])
    if case == "C06":
        assert max(len(line.encode()) for line in lines) == EXPECT["C06"]["longest_line_bytes"]


def test_c11_stopped_at_a_limit() -> None:
    want = EXPECT["C11"]
    parser, blocks, marks = parse(case_lines("C11"))
    partial = {mark.kernel_index for mark in marks}
    uids = [b.kernel_launch_uid for b in blocks]
    assert [uid for index, uid in enumerate(uids) if index not in partial] == want["kernels_complete"]
    assert [uid for index, uid in enumerate(uids) if index in partial] == want["kernels_partial"]
    assert marks == [PartialMark(1)]
    assert parser.metrics.gpu_tot_sim_insn == want["tot_insn"]
    assert parser.exit_detected


def test_c12_concurrent_kernels() -> None:
    want = EXPECT["C12"]
    parser, blocks, _ = parse(case_lines("C12"))
    assert parser.launched == len(want["launched_uids"])
    assert len(blocks) == want["stats_blocks"]
    assert blocks[0].kernel_launch_uid == 4
    assert blocks[0].stream_id == 140669595551616
    second = blocks[1]
    assert second.stats()["kernel_launch_uid"] == " ".join(map(str, want["second_block_uids"]))
    assert second.kernel_launch_uid is None
    assert second.kernel_name == "_Z6KernelP4NodePiPbS2_S2_S1_i _Z6KernelP4NodePiPbS2_S2_S1_i"
    assert parser.exit_detected


def test_c13_empty_name() -> None:
    want = EXPECT["C13"]
    _, blocks, _ = parse(case_lines("C13"))
    got = [{"uid": b.kernel_launch_uid, "cycles": b.gpu_sim_cycle} for b in blocks]
    assert got == [{"uid": kernel["uid"], "cycles": kernel["cycles"]} for kernel in want["kernels"]]
    assert (blocks[1].kernel_name, blocks[1].name_inferred) == ("_Z7Kernel2PbS_S_S_i", True)
    assert blocks[1].stats()["kernel_name"] == ""
    assert blocks[1].stats()["kernel_launch_uid"] == ""


def test_c15_dirty_bytes() -> None:
    want = EXPECT["C15"]
    parser, [block], _ = parse(case_lines("C15"))
    assert block.gpu_sim_cycle == want["cycles"]
    assert (block.gpu_sim_insn is not None) is want["insn_recoverable"]
    assert block.gpu_tot_sim_insn is None
    stats = stats_json(block)
    assert not any("insn" in key for key in stats)
    assert 41210 not in stats.values()
    assert not parser.exit_detected


@pytest.mark.parametrize("case", ["C07", "C08"])
def test_no_kernel_finished(case: str) -> None:
    parser, blocks, marks = parse(case_lines(case))
    assert (blocks, marks) == ([], [])
    assert not parser.exit_detected


def test_c10_words_in_names_decide_nothing() -> None:
    parser, [block], _ = parse(case_lines("C10"))
    assert block.gpu_sim_cycle == EXPECT["C10"]["cycles"]
    assert parser.exit_detected
