"""Kinds and own shares of all statistics, proved on every recording of a run that went well."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascade_server.contract.analysis import CounterKind
from cascade_server.contract.models import StatValue
from cascade_server.services.counters import (
    NOTHING_BEFORE,
    RULES,
    Stats,
    counters,
    facts_of,
    kind_of,
)
from cascade_server.simlog.parser import KernelBlock, LogParser
from tests.recordings import TRUTH, recording_lines

OK = [name for name in TRUTH if name.startswith("ok-")]
SERIAL = [name for name in OK if "concurrent" not in name]


@cache
def blocks(name: str) -> tuple[tuple[int, dict[str, StatValue]], ...]:
    """Stream and statistics of each block of a recording."""
    found = [item for item in LogParser().feed(recording_lines(name)) if isinstance(item, KernelBlock)]
    return tuple((block.stream_id if block.stream_id is not None else -1, block.stats()) for block in found)


def shares(name: str, *, overlapped: bool = False) -> Iterator[dict[str, float | None]]:
    """Of each block, its kernel's own share of each key."""
    before: Stats = NOTHING_BEFORE
    of_stream: dict[int, Stats] = {}
    for stream, stats in blocks(name):
        found = counters(stats, before, of_stream.get(stream, NOTHING_BEFORE), overlapped=overlapped)
        yield {key: counter.own for key, counter in found.items()}
        before = of_stream[stream] = stats


def number(value: StatValue | None) -> float | int:
    assert isinstance(value, int | float)
    return value


@pytest.mark.timeout(240)  # 400 kernels × 1,600 keys
@pytest.mark.parametrize("name", OK)
def test_cumulative_counters_never_decrease(name: str) -> None:
    last: dict[str, StatValue] = {}
    of_stream: dict[int, dict[str, StatValue]] = {}
    seen, wrong = 0, []
    for stream, stats in blocks(name):
        for key, value in stats.items():
            if kind_of(key, value) is CounterKind.CUMULATIVE:
                old = (of_stream.get(stream, {}) if facts_of(key).per_stream else last).get(key, 0)
                if isinstance(value, str) or isinstance(old, str) or value < old:
                    wrong.append((key, old, value))
                seen += 1
        last |= stats
        of_stream.setdefault(stream, {}).update(stats)
    assert wrong == []
    assert seen > 500


@pytest.mark.timeout(240)  # 400 kernels × 1,600 keys
@pytest.mark.parametrize("name", SERIAL)
def test_own_shares_add_up_to_the_last_value(name: str) -> None:
    last: dict[tuple[int, str], StatValue] = {}
    sums: dict[tuple[int, str], float] = {}
    wrong = []
    for (stream, stats), row in zip(blocks(name), shares(name), strict=True):
        for key, value in stats.items():
            facts = facts_of(key)
            if kind_of(key, value) is CounterKind.CUMULATIVE and not facts.extreme:
                own = row[key]
                if own is None or own < 0:
                    wrong.append((key, own))
                    continue
                place = (stream if facts.per_stream else -1, key)
                sums[place] = sums.get(place, 0) + own
                last[place] = value
        check_per_kernel_values(stats, row)
    assert wrong == []
    assert sums == last
    assert len(sums) > 500


def check_per_kernel_values(stats: Stats, row: dict[str, float | None]) -> None:
    """Against what the simulator accumulates beside them: the shares of the totals are the per-kernel values."""
    cycles = number(stats["gpu_sim_cycle"])
    assert row["gpu_sim_cycle"] == cycles == row["gpu_tot_sim_cycle"] == row["Req_Network_cycles"]
    assert row["gpu_sim_insn"] == stats["gpu_sim_insn"] == row["gpu_tot_sim_insn"]
    assert row["gpu_ipc"] == pytest.approx(number(stats["gpu_sim_insn"]) / cycles, abs=1e-4, rel=1e-5)
    # Requests to the memory partitions a cycle: those of this kernel alone.
    packets = row["Req_Network_injected_packets_num"]
    assert packets is not None
    assert row["partiton_level_parallism"] == pytest.approx(packets / cycles, abs=1e-4, rel=1e-5)


@pytest.mark.parametrize("name", SERIAL)
def test_no_counter_is_taken_for_a_rate_or_a_per_kernel_value(name: str) -> None:
    kinds = {key: kind_of(key, value) for _, stats in blocks(name) for key, value in stats.items()}
    whole = {key for key, kind in kinds.items() if kind is CounterKind.RATE}
    for _, stats in blocks(name):
        for key in whole & stats.keys():
            value = stats[key]
            # Latencies on average and speeds are printed whole; all others have a fraction, or are 0 or 1.
            assert not isinstance(value, int) or value in (0, 1) or "av" in key or "_rate" in key or "slow" in key, key
    per_kernel = {key for key, kind in kinds.items() if kind is CounterKind.PER_KERNEL}
    assert per_kernel == {
        "gpu_sim_cycle",
        "gpu_sim_insn",
        "gpu_ipc",
        "gpu_occupancy",
        "L2_BW",
        "partiton_level_parallism",
        "partiton_level_parallism_util",
    }


def test_a_stream_counts_alone() -> None:
    key = "Total_core_cache_stats_breakdown[GLOBAL_ACC_R][TOTAL_ACCESS]"
    assert [stats[key] for _, stats in blocks("ok-streams2-serial-rtx3070")] == [1024, 2048, 1536, 2560]
    assert [row[key] for row in shares("ok-streams2-serial-rtx3070")] == [1024, 2048, 1536 - 1024, 2560 - 2048]


@pytest.mark.parametrize("name", [name for name in OK if "concurrent" in name])
def test_overlapped_kernels_have_shares_of_their_stream_alone(name: str) -> None:
    sums: dict[tuple[int, str], float] = {}
    last: dict[tuple[int, str], StatValue] = {}
    for (stream, stats), row in zip(blocks(name), shares(name, overlapped=True), strict=True):
        assert {key for key, own in row.items() if own is not None} == {
            key for key in stats if facts_of(key).per_stream
        }
        for key, own in row.items():
            if own is not None:
                sums[stream, key] = sums.get((stream, key), 0) + own
                last[stream, key] = stats[key]
    assert sums == last


def test_every_rule_is_of_use() -> None:
    keys = {key.partition("#")[0] for name in ("ok-vec4-a100", "ok-demo-qv100") for _, s in blocks(name) for key in s}
    for rule in RULES:
        assert any(rule.pattern.fullmatch(key) for key in keys), rule.pattern.pattern


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [
        ("kernel_launch_uid", 3, CounterKind.TEXT),
        ("gpu_occupancy", "-nan%", CounterKind.PER_KERNEL),
        ("gpu_tot_occupancy", 87.9, CounterKind.RATE),
        ("gpgpu_simulation_rate (cycle/sec)", 495, CounterKind.RATE),
        ("L1D_cache_core[7].Miss_rate", "-nan", CounterKind.RATE),
        ("L1D_cache_core[7].Miss", 7, CounterKind.CUMULATIVE),
        ("bw_util#3", 0, CounterKind.RATE),
        ("util_bw#3", 256, CounterKind.CUMULATIVE),
        ("mrqq.max#2", 12, CounterKind.CUMULATIVE),
        ("mrqq.avg#2", 0, CounterKind.RATE),
        ("avg_icnt2mem_latency", 222, CounterKind.RATE),
        ("W12", 5, CounterKind.CUMULATIVE),
        ("a_new_counter", 5, CounterKind.CUMULATIVE),
        ("a_new_average", 0.5, CounterKind.RATE),
        ("a_new_word", "yes", CounterKind.TEXT),
    ],
)
def test_kinds(key: str, value: StatValue, kind: CounterKind) -> None:
    assert kind_of(key, value) is kind


def test_what_is_not_known_has_no_share() -> None:
    stats: dict[str, StatValue] = {
        "gpgpu_n_load_insn": 10,
        "overflown": -5,
        "maxmflatency": 9,
        "n_act": 4,
        "n_act#2": 5,
        "lost": 3,
        "odd": "nan",
        "gpu_sim_cycle": 7,
        "gpu_ipc": "nan",
        "L2_cache_stats_fail_breakdown[GLOBAL_ACC_R][MISS_QUEUE_FULL]": 2,
    }
    before: dict[str, StatValue] = {"gpgpu_n_load_insn": 4, "overflown": 2**62, "maxmflatency": 3, "n_act": 4, "odd": 1}
    own = {key: c.own for key, c in counters(stats, before, before, overlapped=False).items()}
    assert own == {
        "gpgpu_n_load_insn": 6,
        "overflown": None,
        "maxmflatency": None,
        # The block before has one line less of these: which channel's is missing is not known.
        "n_act": None,
        "n_act#2": None,
        "lost": None,
        "odd": None,
        "gpu_sim_cycle": 7,
        "gpu_ipc": None,
        # Printed only once it is above 0.
        "L2_cache_stats_fail_breakdown[GLOBAL_ACC_R][MISS_QUEUE_FULL]": 2,
    }
    unknown = counters(stats, None, None, overlapped=False)
    assert {key for key, c in unknown.items() if c.own is not None} == {"gpu_sim_cycle"}
    assert all(c.value == stats[key] for key, c in unknown.items())


def test_large_counts_are_subtracted_exactly() -> None:
    (counter,) = counters({"n_req": 2**60 + 3}, {"n_req": 2**60 + 1}, None, overlapped=False).values()
    assert counter.own == 2


STATS = st.dictionaries(
    st.one_of(st.text(max_size=12), st.sampled_from(["gpu_sim_cycle", "n_act", "n_act#2", "gpu_tot_sim_insn"])),
    st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=5)),
    max_size=8,
)


@given(STATS, st.one_of(st.none(), STATS), st.one_of(st.none(), STATS), st.booleans())
def test_any_statistics_give_counters(
    stats: dict[str, StatValue], before: Stats | None, same_stream: Stats | None, overlapped: bool
) -> None:
    found = counters(stats, before, same_stream, overlapped=overlapped)
    assert list(found) == list(stats)
    for key, counter in found.items():
        assert counter.value == stats[key]
        if counter.kind is CounterKind.CUMULATIVE and counter.own is not None:
            assert counter.own >= 0
        if counter.kind in (CounterKind.RATE, CounterKind.TEXT):
            assert counter.own is None
