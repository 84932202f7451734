"""What each statistic of a stats block counts, and a kernel's own share of those that add up over kernels.

The simulator prints some values per kernel, and accumulates most over all kernels so far; rates are taken over all of
them too. The rules below were found on recorded runs and are proved on them (tests/server/test_counters.py): a
cumulative counter never decreases, and the own shares add up to the last value.
"""

from __future__ import annotations

import re
from collections import Counter as Tally
from collections.abc import Callable, Mapping
from typing import NamedTuple

from cascade_server.contract.analysis import Counter, CounterKind
from cascade_server.contract.models import StatValue

Stats = Mapping[str, StatValue]

NOTHING_BEFORE: Stats = {}
"""The block is the first: all counters began at 0."""


class Rule(NamedTuple):
    """Keys (without `#2`, …) that match `pattern` as a whole are of this kind."""

    pattern: re.Pattern[str]
    kind: CounterKind
    extreme: bool = False
    """A largest or smallest value over all kernels so far: it accumulates, but differences mean nothing."""


def _rule(pattern: str, kind: CounterKind, *, extreme: bool = False) -> Rule:
    return Rule(re.compile(pattern), kind, extreme)


# The first that matches decides.
RULES: tuple[Rule, ...] = (
    _rule("kernel_name|kernel_launch_uid|kernel_stream_id", CounterKind.TEXT),
    # `5/4 = 1.25`: over all kernels, and no number
    _rule("average row locality|chip skew|bank skew", CounterKind.TEXT),
    _rule("gpu_sim_cycle|gpu_sim_insn|gpu_ipc|gpu_occupancy|L2_BW", CounterKind.PER_KERNEL),
    _rule("partiton_level_parallism(?:_util)?", CounterKind.PER_KERNEL),
    _rule(
        "max_?\\w*latency|max_total_param_size|min_(?:bank|chip)_accesses|mrqq\\.max",
        CounterKind.CUMULATIVE,
        extreme=True,
    ),
    # Averages and shares over all kernels so far; the second line is wall-clock speed.
    _rule("gpu_tot_ipc|gpu_tot_occupancy|L2_BW_total|partiton_level_parallism\\w*_total", CounterKind.RATE),
    _rule("gpu_total_sim_rate|gpgpu_simulation_rate.*|gpgpu_silicon_slowdown", CounterKind.RATE),
    _rule("(?:.*\\.)?\\w*[Mm]iss_rate|\\w*_rate", CounterKind.RATE),
    _rule("average\\w+|avg_\\w+|\\w+_avg|\\w+_average|\\w+\\.avg", CounterKind.RATE),
    _rule("bw_?util|\\w+_[Uu]til|\\w+_avg_util|dram_eff|issued_two_Eff", CounterKind.RATE),
    _rule("\\w+_per_cycle\\w*", CounterKind.RATE),
    _rule("Row_Buffer_Locality\\w*|\\w*Bank_Level_Parallism\\w*|GrpLevelPara|\\w*ratio\\w*", CounterKind.RATE),
)

_PER_STREAM = re.compile(r"(?:Total_core_cache|L2_cache)_\w*breakdown\[.*")
_LEFT_OUT_AT_ZERO = re.compile(r"\w+_breakdown(?:_\w+)?\[.*")


class Facts(NamedTuple):
    """What a key of `block_stats` says of its value."""

    base: str
    """Without the `#2`, … of a key that is printed several times."""
    kind: CounterKind | None
    """None where no rule tells."""
    extreme: bool
    """A largest or smallest value over all kernels so far: it has no shares."""
    per_stream: bool
    """It counts the block's stream (`kernel_stream_id`) alone."""
    left_out_at_zero: bool
    """It is printed only when it is above 0."""


_facts: dict[str, Facts] = {}
_MOST_FACTS = 1 << 15


def facts_of(key: str) -> Facts:
    """The facts of a key. Remembered, since all blocks print the same keys; this changes nothing but the speed."""
    facts = _facts.get(key)
    if facts is None:
        base = key.partition("#")[0]
        rule = next((rule for rule in RULES if rule.pattern.fullmatch(base)), None)
        facts = Facts(
            base=base,
            kind=rule.kind if rule else None,
            extreme=rule is not None and rule.extreme,
            per_stream=_PER_STREAM.fullmatch(base) is not None,
            left_out_at_zero=_LEFT_OUT_AT_ZERO.fullmatch(base) is not None,
        )
        if len(_facts) >= _MOST_FACTS:
            _facts.clear()
        _facts[key] = facts
    return facts


def kind_of(key: str, value: StatValue) -> CounterKind:
    """The kind of a statistic.

    A key without a rule (another version of the simulator): whole numbers are taken for cumulative, as nearly all
    are, numbers with a fraction for rates, the rest is text.
    """
    kind = facts_of(key).kind
    if kind is not None:
        return kind
    if isinstance(value, str):
        return CounterKind.TEXT
    return CounterKind.CUMULATIVE if isinstance(value, int) else CounterKind.RATE


def counters(stats: Stats, before: Stats | None, same_stream: Stats | None, *, overlapped: bool) -> dict[str, Counter]:
    """Every statistic of a block with its kind and the kernel's own share, in the order of printing.

    `before` are the statistics of the block before, `same_stream` those of the last one on the same stream;
    NOTHING_BEFORE where there is none, None where it is not known: then no shares can be taken from it. When other
    kernels ran while it did (`overlapped`), only what counts one stream alone is one kernel's.

    A share is None for rates, text, largest and smallest values, where one of the two values is no number, where
    the counter went down (it overflowed), and where a line that prints the key is missing in one of the two blocks.
    """
    own_of = {True: _shares(stats, same_stream), False: _shares(stats, None if overlapped else before)}
    found: dict[str, Counter] = {}
    for key, value in stats.items():
        facts, kind = facts_of(key), kind_of(key, value)
        own: float | None = None
        if kind is CounterKind.CUMULATIVE and not facts.extreme:
            own = own_of[facts.per_stream](key, value)
        elif kind is CounterKind.PER_KERNEL and not overlapped and not isinstance(value, str):
            own = float(value)
        # model_construct: thousands at a time, and every part is typed.
        found[key] = Counter.model_construct(kind=kind, value=value, own=own)
    return found


def _shares(stats: Stats, before: Stats | None) -> Callable[[str, StatValue], float | None]:
    """The function that takes one key's share against a block before."""
    if before is None:
        return lambda key, value: None
    first = not before
    times, times_before = _times(stats), _times(before)

    def share(key: str, value: StatValue) -> float | None:
        facts = facts_of(key)
        old = before.get(key)
        if first or (old is None and facts.left_out_at_zero):
            old = 0
        # Keys of channels are told apart by their order alone: one lost line shifts all behind it.
        elif times[facts.base] != times_before[facts.base]:
            return None
        if old is None or isinstance(old, str) or isinstance(value, str) or value < old:
            return None
        return float(value - old)

    return share


def _times(stats: Stats) -> Tally[str]:
    """How often each key is printed."""
    return Tally(facts_of(key).base for key in stats)
