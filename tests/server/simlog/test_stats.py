"""What each line of a stats block means."""

from __future__ import annotations

import json

import pytest

from cascade_server.simlog import pairs, stats
from cascade_server.simlog.parser import block_stats

HEAD = [f"{key} = 1" for key in stats.TORN_KEYS]


@pytest.mark.parametrize(
    ("line", "pairs"),
    [
        ("gpu_sim_cycle = 5858", {"gpu_sim_cycle": 5858}),
        ("gpu_ipc =       4.5449", {"gpu_ipc": 4.5449}),
        ("gpu_total_sim_rate=26624", {"gpu_total_sim_rate": 26624}),
        ("gpu_stall_icnt2sh    = 0", {"gpu_stall_icnt2sh": 0}),
        ("\tL1D_cache_data_port_util = 0.000", {"L1D_cache_data_port_util": 0.0}),
        ("big = 18446744073709551615", {"big": 18446744073709551615}),
        ("bigger = 9007199254740993", {"bigger": 9007199254740993}),
        ("overflown = -2147483648", {"overflown": -2147483648}),
        ("tiny = 7.5e-05", {"tiny": 7.5e-05}),
        ("tiny = 1e-05", {"tiny": 1e-05}),
        ("too_big = 1e999", {"too_big": "1e999"}),
        ("endless = " + "9" * 5000, {"endless": "9" * 5000}),
        ("gpu_occupancy = 87.8894% ", {"gpu_occupancy": 87.8894}),
        ("gpu_occupancy = -nan% ", {"gpu_occupancy": "-nan%"}),
        ("L2_BW  =     393.7992 GB/Sec", {"L2_BW": 393.7992}),
        ("L2_BW  =          inf GB/Sec", {"L2_BW": "inf GB/Sec"}),
        ("min_bank_accesses = 0!", {"min_bank_accesses": 0}),
        ("gpgpu_silicon_slowdown = 193240x", {"gpgpu_silicon_slowdown": 193240}),
        ("gpgpu_simulation_rate = 26624 (inst/sec)", {"gpgpu_simulation_rate": 26624}),
        ("gpgpu_simulation_rate = 5858 (cycle/sec)", {"gpgpu_simulation_rate (cycle/sec)": 5858}),
        ("gpgpu_simulation_time = 1 days, 0 hrs, 0 min, 56 sec (86456 sec)", {"gpgpu_simulation_time": 86456}),
        (
            "n_cmd=18112 n_nop=18074 n_rd_L2_A=0 bw_util=0.007067",
            {"n_cmd": 18112, "n_nop": 18074, "n_rd_L2_A": 0, "bw_util": 0.007067},
        ),
        (
            "\tL1D_cache_core[0]: Access = 48, Miss = 0, Miss_rate = -nan, Pending_hits = 0",
            {
                "L1D_cache_core[0].Access": 48,
                "L1D_cache_core[0].Miss": 0,
                "L1D_cache_core[0].Miss_rate": "-nan",
                "L1D_cache_core[0].Pending_hits": 0,
            },
        ),
        ("mrqq: max=14 avg=0.0786219", {"mrqq.max": 14, "mrqq.avg": 0.0786219}),
        ("L2_cache_stats_breakdown[A_R][HIT] = 12", {"L2_cache_stats_breakdown[A_R][HIT]": 12}),
        ("average row locality = 512/32 = 16.000000", {"average row locality": "512/32 = 16.000000"}),
        ("chip skew: 32/32 = 1.00", {"chip skew": "32/32 = 1.00"}),
        ("traffic_breakdown_x = 9 {8:512,}", {"traffic_breakdown_x": 9, "traffic_breakdown_x{8}": 512}),
        ("traffic_breakdown_x = 9 {}", {"traffic_breakdown_x": 9}),
        ("traffic_breakdown_x[R] = 20480 {8:5", {"traffic_breakdown_x[R]": "20480 {8:5"}),
        ("kernel_name = _Z6vecaddPKfS0_Pfi ", {"kernel_name": "_Z6vecaddPKfS0_Pfi"}),
        ("kernel_name = 5", {"kernel_name": "5"}),
        ("kernel_name = a=b(c = d) ", {"kernel_name": "a=b(c = d)"}),
        ("kernel_launch_uid = 1 2 ", {"kernel_launch_uid": "1 2"}),
        ("kernel_launch_uid = ", {"kernel_launch_uid": ""}),
        ("========= Core cache stats =========", {}),
        ("----------------------------Interconnect-DETAILS--------------------------------", {}),
        ("DRAM[0]: 16 bks, busW=2 BL=16 CL=24, tRRD=12 tCCD=4, tRCD=24 tRAS=55 tRP=24 tRC=78", {}),
        ("In Dram Latency Queue (total = 0): ", {}),
        ("  mf: uid=  1826, sid08:w00, part=0, addr=0x7f4020001040, store, size=32, GLOBAL_W status = X (5665)", {}),
        ("dram[0]:        16        16         0 ", {}),
        ("", {}),
        ("=", {}),
        ("= 5", {}),
        # broken
        ("gpu_tot_sim_insn\0 = 41210", {}),
        ("\x1b[31mgpu_x\x1b[0m = 5", {}),
        ("gpu\ufffd = 5", {}),
        ("gpu_x = 5\0", {"gpu_x": "5\0"}),
        ("gpu_x = 60WARNING: xz", {"gpu_x": "60WARNING: xz"}),
        ("gpu_x = 60 70", {"gpu_x": "60 70"}),
        ("gpu_x = 1_000", {"gpu_x": "1_000"}),
        ("gpu_x = ٣", {"gpu_x": "٣"}),
        ("gpu_x = 0x10", {"gpu_x": "0x10"}),
        ("gpu_x = 6000gpu_y = 41210", {"gpu_x": "6000gpu_y = 41210"}),
        ("gpu_x = 5\r", {"gpu_x": 5}),
        ("n_cmd=18112 n_nWARNING: slow", {"n_cmd": "18112 n_nWARNING: slow"}),
        ("n_cmd=18112 n_nop=1=2 n_act", {"n_cmd": "18112 n_nop=1=2 n_act"}),
        ("L1D_cache_core[0]: Access = 48, Mixz: slow reader", {}),
        ("L1D_cache_core[0]: Access = 48 = 3, Miss", {}),
        ("xz: warning = 5 gpu_x = 3", {}),
    ],
)  # fmt: skip
def test_line(line: str, pairs: dict[str, int | float | str]) -> None:
    got = block_stats([line])
    assert got == pairs
    assert [type(value) for value in got.values()] == [type(value) for value in pairs.values()]
    assert block_stats([line]) == pairs  # now from the caches
    json.dumps(got, allow_nan=False)


def test_a_repeated_key_is_numbered_in_the_order_of_printing() -> None:
    got = block_stats(
        ["n_cmd=7 n_act=1", "n_act = 1 ", "n_cmd=8 n_act=2", "n_act = 2 ", "other = 0", "n_cmd=9 n_act=3"]
    )
    assert got == {
        "n_cmd": 7,
        "n_act": 1,
        "n_act#2": 1,
        "n_cmd#2": 8,
        "n_act#3": 2,
        "n_act#4": 2,
        "other": 0,
        "n_cmd#3": 9,
        "n_act#5": 3,
    }


def test_a_repeated_rate_is_numbered_by_its_own_unit() -> None:
    rate = "gpgpu_simulation_rate = {} ({}/sec)"
    got = block_stats([rate.format(1, "cycle"), rate.format(2, "inst"), rate.format(3, "cycle")])
    assert got == {
        "gpgpu_simulation_rate (cycle/sec)": 1,
        "gpgpu_simulation_rate": 2,
        "gpgpu_simulation_rate (cycle/sec)#2": 3,
    }


def test_warps_and_issues_joined_by_colons() -> None:
    lines = [
        "Warp Occupancy Distribution:",
        "Stall:0\tW0_Idle:16096\tW0_Scoreboard:37856\tW1:0\tW32:832",
        "single_issue_nums: WS0:208\tWS1:7\t",
        "dual_issue_nums: WS0:0\tWS1:0\t",
    ]
    assert block_stats(lines) == {
        "Stall": 0,
        "W0_Idle": 16096,
        "W0_Scoreboard": 37856,
        "W1": 0,
        "W32": 832,
        "single_issue_nums.WS0": 208,
        "single_issue_nums.WS1": 7,
        "dual_issue_nums.WS0": 0,
        "dual_issue_nums.WS1": 0,
    }
    again = [lines[0], "Stall:7\tW0_Idle:-8\tW0_Scoreboard:9\tW1:0\tW32:10"]
    assert block_stats(again) == {"Stall": 7, "W0_Idle": -8, "W0_Scoreboard": 9, "W1": 0, "W32": 10}
    for broken in ("W1:0xz: slow", "W1:0\tW32:1.5", "W1:0\tW32:5x", "W1:0\tW32:5 B/s", "W1:\tW32:5", "W1:0\tW32:1e5"):
        assert block_stats([lines[0], f"Stall:0\tW0_Idle:16\tW0_Scoreboard:9\t{broken}"]) == {}


@pytest.mark.parametrize("key", stats.TORN_KEYS)
@pytest.mark.parametrize("at", [1, 4, 5])
def test_the_rest_of_a_torn_key_is_no_key(key: str, at: int) -> None:
    lines = [line for line in HEAD if not line.startswith(f"{key} ")]
    got = block_stats([*lines, f"{key[:at]}WARNING: xz: slow reader", f"{key[at:]} = 41210", "other = 3"])
    assert got == {**block_stats(lines), "other": 3}


def test_a_key_behind_a_line_without_a_key_stays() -> None:
    assert block_stats([*HEAD, "L1I_cache:", "insn = 5"])["insn"] == 5
    assert block_stats(["L1I_cache:", "insn = 5"]) == {"insn": 5}


def test_a_small_change_shows_although_texts_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "CACHE_ENTRIES", 3)
    monkeypatch.setattr(stats, "_MOST_READ", 1)
    for count in range(50):
        lines = [f"a{count % 7} = {count}", f"n_cmd={count} n_nop={count + 1}", f"L[{count}]: Access = {count}"]
        lines += ["b = 5"] * (count % 3)
        got = block_stats(lines)
        assert {key: value for key, value in got.items() if key[0] != "b"} == {
            f"a{count % 7}": count,
            "n_cmd": count,
            "n_nop": count + 1,
            f"L[{count}].Access": count,
        }
        assert list(got)[4:] == ["b", "b#2"][: count % 3]


def test_the_caches_stay_small() -> None:
    for count in range(pairs.CACHE_ENTRIES + 100):
        block_stats([f"key{count} = {count}.5", f"n{count}=1 m=2"])
    for count in range(100):
        block_stats(["a = 1"] * count)
    for cache in (pairs.keys_of_heads, pairs.values_of_texts, pairs.pairs_of_lines, pairs._forms):
        assert len(cache) <= pairs.CACHE_ENTRIES
    assert len(stats._last_read) <= stats._MOST_READ


PLANNED = ["a = 1", "b = 2 ", "n_cmd=3 n_nop=4", "\tL[0]: Access = 5, Miss = nan", "a = 6"]


@pytest.mark.parametrize(
    ("index", "line", "change"),
    [
        (1, "b = 7", {"b": 7}),
        (1, "b = 7 = 8", {"b": "7 = 8"}),
        (1, "b = ", {"b": ""}),
        (2, "n_cmd=7 n_nop=8", {"n_cmd": 7, "n_nop": 8}),
        (2, "n_cmd=7 n_nop=8 9", {"n_cmd": "7 n_nop=8 9", "n_nop": None}),
        (2, "n_cmd=7 8 n_nop=9", {"n_cmd": "7 8 n_nop=9", "n_nop": None}),
        (2, "n_cmd=7  n_nop=9", {"n_cmd": "7  n_nop=9", "n_nop": None}),
        (2, "n_cmd=7=8 n_nop=9", {"n_cmd": "7=8 n_nop=9", "n_nop": None}),
        (2, "n_cmd=7 n_act=8", {"n_cmd": 7, "n_nop": None, "n_act": 8}),
        (2, "n_cmd=7", {"n_cmd": 7, "n_nop": None}),
        (2, "n_cmd = 7", {"n_cmd": 7, "n_nop": None}),
        (2, "n_cmd=7 n_nop=", {"n_cmd": 7, "n_nop": ""}),
        (2, "n_cmd= n_nop=8", {"n_cmd": "", "n_nop": 8}),
        (3, "\tL[0]: Access = 7, Miss = 8", {"L[0].Access": 7, "L[0].Miss": 8}),
        (3, "\tL[0]: Access = 7, 8, Miss = 9", {"L[0].Access": None, "L[0].Miss": None}),
        (3, "\tL[0]: Access =7, Miss = 9", {"L[0].Access": None, "L[0].Miss": None}),
        (3, "\tL[0]: Access = 7, Miss = 9 = 1", {"L[0].Access": None, "L[0].Miss": None}),
        (3, "\tL[0]: Access = 7xz: slow", {"L[0].Access": "7xz: slow", "L[0].Miss": None}),
        (3, "c = 7", {"c": 7, "L[0].Access": None, "L[0].Miss": None}),
        (4, "c = 7", {"c": 7, "a#2": None}),
        (4, "c: d = 7", {"c.d": 7, "a#2": None}),
    ],
)
def test_a_block_that_looks_like_those_before_it_but_for_a_line(
    index: int, line: str, change: dict[str, int | float | str | None]
) -> None:
    usual = {"a": 1, "b": 2, "n_cmd": 3, "n_nop": 4, "L[0].Access": 5, "L[0].Miss": "nan", "a#2": 6}
    for _ in range(3):
        assert block_stats(PLANNED) == usual
    changed = [*PLANNED[:index], line, *PLANNED[index + 1 :]]
    want = {key: value for key, value in (usual | change).items() if value is not None}
    for _ in range(3):
        assert block_stats(changed) == want
    assert block_stats(PLANNED) == usual


def test_the_caller_may_change_what_it_got() -> None:
    lines = ["a = 1", "b = 2"]
    block_stats(lines).clear()
    block_stats(lines)["a"] = 7
    assert block_stats(lines) == {"a": 1, "b": 2}
