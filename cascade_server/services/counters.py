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

from cascade_server.contract.models import Counter, CounterKind, StatValue

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


def kind_of(key: str, value: StatValue) -> CounterKind:
    """The kind of a key of `block_stats`.

    A key without a rule (another version of the simulator): whole numbers are taken for cumulative, as nearly all
    are, numbers with a fraction for rates, the rest is text.
    """
    rule = _rule_of(key)
    if rule is not None:
        return rule.kind
    if isinstance(value, str):
        return CounterKind.TEXT
    return CounterKind.CUMULATIVE if isinstance(value, int) else CounterKind.RATE


def is_extreme(key: str) -> bool:
    """Whether a key is a largest or smallest value over all kernels so far: it has no shares."""
    rule = _rule_of(key)
    return rule is not None and rule.extreme


def is_per_stream(key: str) -> bool:
    """Whether a key counts the block's stream (`kernel_stream_id`) alone."""
    return _PER_STREAM.fullmatch(_base(key)) is not None


def counters(stats: Stats, before: Stats | None, same_stream: Stats | None, *, overlapped: bool) -> dict[str, Counter]:
    """Every statistic of a block with its kind and the kernel's own share, in the order of printing.

    `before` are the statistics of the block before, `same_stream` those of the last one on the same stream;
    NOTHING_BEFORE where there is none, None where it is not known: then no shares can be taken from it. When other
    kernels ran meanwhile (`overlapped`), only what counts one stream alone is one kernel's.

    A share is None for rates, text, largest and smallest values, where one of the two values is no number, where
    the counter went down (it overflowed), and where a line that prints the key is missing in one of the two blocks.
    """
    own_of = {True: _shares(stats, same_stream), False: _shares(stats, None if overlapped else before)}
    found: dict[str, Counter] = {}
    for key, value in stats.items():
        kind = kind_of(key, value)
        own: float | None = None
        if kind is CounterKind.CUMULATIVE and not is_extreme(key):
            own = own_of[is_per_stream(key)](key, value)
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
    times, times_before = Tally(map(_base, stats)), Tally(map(_base, before))

    def share(key: str, value: StatValue) -> float | None:
        base = _base(key)
        old = before.get(key)
        if first or (old is None and _LEFT_OUT_AT_ZERO.fullmatch(base)):
            old = 0
        # Keys of channels are told apart by their order alone: one lost line shifts all behind it.
        elif times[base] != times_before[base]:
            return None
        if old is None or isinstance(old, str) or isinstance(value, str) or value < old:
            return None
        return float(value - old)

    return share


def _base(key: str) -> str:
    return key.partition("#")[0]


_rules: dict[str, Rule | None] = {}
_MOST_RULES = 1 << 14


def _rule_of(key: str) -> Rule | None:
    """The rule of a key. Remembered, since all blocks print the same keys; this changes nothing but the speed."""
    base = _base(key)
    if base not in _rules:
        if len(_rules) >= _MOST_RULES:
            _rules.clear()
        _rules[base] = next((rule for rule in RULES if rule.pattern.fullmatch(base)), None)
    return _rules[base]
