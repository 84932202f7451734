"""One stats block of the simulator → its map of keys and values.

A block is what Accel-Sim (GPGPU-Sim 4.2.0) prints when a kernel ends, from `kernel_name = …` to
`gpgpu_silicon_slowdown = …`: 870 to 4,300 lines with a `=`, 55 to 290 KB.

Keys
    The first `=` of a line splits key from value; both are stripped of blanks.
    `n_cmd=18112 n_nop=18074 …` gives one key for each pair. `L1D_cache_core[0]: Access = 48, Miss = 48, …`,
    `mrqq: max=14 avg=0.07` and `DRAM[0]: 16 bks, busW=2 BL=16, …` give `L1D_cache_core[0].Access`, `mrqq.max`,
    `DRAM[0].busW` (the `16 bks` has no name and is left out).
    `traffic_breakdown_coretomem[GLOBAL_ACC_R] = 4096 {8:512,}` gives the bytes (4096) under its key and the number of
    packets of each size under `traffic_breakdown_coretomem[GLOBAL_ACC_R]{8}` (512).
    `chip skew: 32/32 = 1.00` and `bank skew: …` have the name before the colon as key and the rest as text, since the
    fraction before the `=` differs from block to block; `average row locality = 512/32 = 16.0` is text as well.
    `Stall:0<tab>W0_Idle:16096…` (warp occupancy) gives `Stall`, `W0_Idle`, `W1`, …;
    `single_issue_nums: WS0:208 …` gives `single_issue_nums.WS0`, and `dual_issue_nums` likewise.

Repeated keys
    The first keeps the bare name, later ones get `#2`, `#3`, … in the order of printing: a key of the memory channels
    (`bw_util`, `Row_Buffer_Locality`) has channel 0 under its bare name and channel 1 under `#2`. Some names are printed
    twice for each channel (`n_act`, `n_req`, `total_CMD`): their `#2` is still channel 0.
    `gpgpu_simulation_rate` is an exception: the bare key is the one in inst/sec, the other one is
    `gpgpu_simulation_rate (cycle/sec)`.

Values
    Integers are exact Python ints (they pass 2^53 and may be negative), numbers with a point or an exponent floats; `%`,
    `x`, `!`, `GB/Sec`, `(inst/sec)` and their like are taken off. `gpgpu_simulation_time` is the seconds in its brackets.
    `nan`, `-nan`, `inf` stay the printed text (`-nan%`), as does every other value: nothing here is a float that JSON
    lacks. `kernel_name` is always text; `kernel_launch_uid` is an int, or text when none or several are printed (`1 2`).

Broken lines (another program's message in the middle, control bytes, a lost line end) are left out or kept as text: a
line counts as numbers only when the whole of it has the expected shape. When one of the keys that `TORN_KEYS` lists is
missing, the rest of its torn line is looked for and left out too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

StatValue = int | float | str
Pairs = tuple[tuple[str, StatValue], ...]

# Left out, since nothing in them names a value:
#   headings: `L1I_cache:`, `Total_core_cache_stats:`, `========= … =========`, `-----…-----`, `BW Util details:`,
#     `BW Util Bottlenecks:`, `Commands details:`, `Dual Bus Interface Util:`, `Memory Partition 0:`, `Cache L2_bank_000:`,
#     `MSHR contents`, `Memory Sub Parition 0: pending memory requests:`, `Warp Occupancy Distribution:`;
#   per-bank tables under headings (`maximum service time to same row:`, `average mf latency per bank:`): `dram[3]: 0 0 …`,
#     and `bk0: 16a 17962i bk1: …`;
#   histograms of unnamed bins: `mrq_lat_table:40 8 …`, `dram_util_bins: 0 0 …`, `LD_mem_lat_dist  0 0 …`,
#     `ctas_completed 16, Shader 0 …` with the lines `warp_id:`, `distro:` and their rows;
#   `total accesses: 512`, the sum of `total dram reads` and `total dram writes`;
#   momentary contents of queues: `  mf: uid= 1826, sid08:w00, …` (a line for each pending request, while other kernels
#     run) and `In Dram Latency Queue (total = 0):`.
_QUEUE = "In Dram Latency Queue (total "

TORN_KEYS = (
    "kernel_launch_uid",
    "gpu_sim_cycle",
    "gpu_sim_insn",
    "gpu_ipc",
    "gpu_tot_sim_cycle",
    "gpu_tot_sim_insn",
    "gpu_tot_ipc",
)
_TORN_SET = frozenset(TORN_KEYS)

_NUMBER = re.compile(
    r"(?P<int>-?[0-9]{1,40})(?P<rest>(?:\.[0-9]{1,40})?(?:[eE][-+]?[0-9]{1,4})?)"
    r"(?:[%x!]| ?%| ?[KMGT]?B/[Ss](?:ec)?| ?\((?:inst|cycle)/sec\))?"
)
_WALL_TIME = re.compile(r"[0-9]+ days, [0-9]+ hrs, [0-9]+ min, [0-9]+ sec \(([0-9]{1,18}) sec\)")
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_\[\] /().-]{0,199}")
_TIGHT_LINE = re.compile(r"(?:[A-Za-z_]\w*=[^\s=]+(?:\s+|$)){2,}", re.ASCII)
_TIGHT_PAIR = re.compile(r"(\w+)=(\S+)", re.ASCII)
_NAMED_LIST = re.compile(
    r"\s*([A-Za-z_]\w*(?:\[[0-9]+\])?): ((?:[0-9]+ bks, )?(?:[A-Za-z_]\w* ?= ?[^\s,=]+(?:,? |\s*$))+)", re.ASCII
)
_LIST_PAIR = re.compile(r"(\w+) ?= ?([^\s,=]+)", re.ASCII)
_SKEW = re.compile(r"((?:chip|bank) skew): (\S+ = \S+)\s*")
_TRAFFIC = re.compile(r" ([0-9]{1,40}) \{((?:[0-9]{1,9}:[0-9]{1,40},)*)\}\s*")
_OCCUPANCY = re.compile(r"Stall:[0-9]+(?:\tW[0-9]+(?:_[A-Za-z]+)?:-?[0-9]{1,40})*\s*")
_ISSUED = re.compile(r"(?:single|dual)_issue_nums: (?:WS[0-9]+:-?[0-9]{1,40}\s*)*")
_COLON_PAIR = re.compile(r"(\w+):(-?[0-9]{1,40})", re.ASCII)
_COLON_LINES = frozenset(("Stall:", "single", "dual_i"))

# Blocks of one log repeat their keys, and most of their values and lines, so what a piece of text means is remembered.
# The answer depends on the text alone: the caches change the speed of a call, never its result.
_CACHE_ENTRIES = 1 << 15
_CACHED_LENGTH = 300
_keys: dict[str, str] = {}  # the text before the first "=" → its key; "" when the line needs _irregular
_values: dict[str, StatValue] = {}  # the text after the first "=" → its value
_irregulars: dict[str, Pairs] = {}  # a whole line → its pairs
_successors: dict[str, str] = {}  # `n_cmd` → `n_cmd#2` → `n_cmd#3`


def block_stats(lines: Sequence[str]) -> dict[str, StatValue]:
    """The block's keys and values in the order of printing, by the rules above; never raises, always fit for JSON."""
    stats: dict[str, StatValue] = {}
    latest: dict[str, str] = {}  # a key printed before → the name its last value got
    key_of, value_of, pairs_of = _keys.get, _values.get, _irregulars.get
    for line in lines:
        head, equals, tail = line.partition("=")
        if equals:
            key = key_of(head)
            if key is None:
                key = _learn_key(head)
            if key:
                value = value_of(tail)
                if value is None:
                    value = _learn_value(tail)
                if key in stats:
                    latest[key] = key = _next_name(latest.get(key, key))
                stats[key] = value
                continue
        elif line[:6] not in _COLON_LINES:
            continue
        pairs = pairs_of(line)
        if pairs is None:
            pairs = _learn_irregular(line)
        for key, value in pairs:
            if key in stats:
                latest[key] = key = _next_name(latest.get(key, key))
            stats[key] = value
    if not stats.keys() >= _TORN_SET:
        _leave_out_torn(stats, lines)
    return stats


def number(text: str) -> int | float | None:
    """The number that `text` (stripped) is, freed of its unit; None for every other text, nan and inf included."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    whole, rest = match.group("int", "rest")
    if not rest:
        return int(whole)
    value = float(whole + rest)
    return value if math.isfinite(value) else None


def wall_seconds(text: str) -> int | None:
    """The 56 of `0 days, 0 hrs, 0 min, 56 sec (56 sec)`; None for every other text."""
    match = _WALL_TIME.fullmatch(text)
    return int(match[1]) if match else None


def value_of(text: str) -> StatValue:
    """What stands behind a `=`, as int, float or stripped text."""
    text = text.strip()
    value = number(text)
    if value is not None:
        return value
    seconds = wall_seconds(text)
    return text if seconds is None else seconds


def _next_name(name: str) -> str:
    """The name of the next value of a repeated key: `n_cmd` → `n_cmd#2` → `n_cmd#3`."""
    following = _successors.get(name)
    if following is None:
        bare, _, count = name.partition("#")
        following = f"{bare}#{int(count) + 1 if count else 2}"
        if len(name) <= _CACHED_LENGTH:
            _make_room(_successors)
            _successors[name] = following
    return following


def _learn_key(head: str) -> str:
    """The key that `head`, the text before the first `=`, stands for; "" when the line is no plain `key = value`.

    A head without a blank before the `=` may be the first of several pairs.
    """
    key = head.strip()
    if (
        not _KEY.fullmatch(key)
        or not head[-1:].isspace()
        or head == _QUEUE
        or key in ("kernel_name", "gpgpu_simulation_rate")
        or key.startswith("traffic_breakdown_")
    ):
        key = ""
    if len(head) <= _CACHED_LENGTH:
        _make_room(_keys)
        _keys[head] = key
    return key


def _learn_value(tail: str) -> StatValue:
    """The value of `tail`, the text after the first `=`."""
    value = value_of(tail)
    if len(tail) <= _CACHED_LENGTH:
        _make_room(_values)
        _values[tail] = value
    return value


def _learn_irregular(line: str) -> Pairs:
    """The pairs of a line that is no plain `key = value`."""
    pairs = tuple(_irregular(line))
    if len(line) <= _CACHED_LENGTH:
        _make_room(_irregulars)
        _irregulars[line] = pairs
    return pairs


def _make_room(cache: dict[str, str] | dict[str, StatValue] | dict[str, Pairs]) -> None:
    """Bounds a cache: it fills again from the next block, which costs less than keeping an order of use."""
    if len(cache) >= _CACHE_ENTRIES:
        cache.clear()


def _irregular(line: str) -> Iterable[tuple[str, StatValue]]:
    """The pairs of a line that holds several, or whose key needs a rule of its own; none when it has no known shape."""
    head, equals, tail = line.partition("=")
    if not equals:
        return _colon_pairs(line)
    if ":" in head:
        return _named_list(line)
    key = head.strip()
    if not _KEY.fullmatch(key) or head == _QUEUE:
        return ()
    if key == "kernel_name":
        return ((key, tail.strip()),)
    if key == "gpgpu_simulation_rate":
        return ((key + " (cycle/sec)" if "(cycle/sec)" in tail else key, value_of(tail)),)
    traffic = _TRAFFIC.fullmatch(tail)
    if traffic and key.startswith("traffic_breakdown_"):
        sizes = (packets.split(":") for packets in traffic[2].split(",")[:-1])
        return ((key, int(traffic[1])), *((f"{key}{{{size}}}", int(count)) for size, count in sizes))
    if _TIGHT_LINE.fullmatch(line):
        return [(name, value_of(text)) for name, text in _TIGHT_PAIR.findall(line)]
    return ((key, value_of(tail)),)


def _named_list(line: str) -> Iterable[tuple[str, StatValue]]:
    """`name: key = value, key = value` → `name.key`, and the two skew lines."""
    match = _NAMED_LIST.fullmatch(line)
    if match:
        name, pairs = match.groups()
        return [(f"{name}.{key}", value_of(text)) for key, text in _LIST_PAIR.findall(pairs)]
    skew = _SKEW.fullmatch(line)
    return ((skew[1], skew[2]),) if skew else ()


def _colon_pairs(line: str) -> Iterable[tuple[str, StatValue]]:
    """The lines whose pairs are joined by a colon: warps by active threads, instructions by scheduler."""
    if _OCCUPANCY.fullmatch(line):
        return [(key, int(text)) for key, text in _COLON_PAIR.findall(line)]
    if _ISSUED.fullmatch(line):
        name, _, counts = line.partition(": ")
        return [(f"{name}.{key}", int(text)) for key, text in _COLON_PAIR.findall(counts)]
    return ()


def _leave_out_torn(stats: dict[str, StatValue], lines: Sequence[str]) -> None:
    """Takes out what is no key but the end of one: stderr can break a line, so that `gpu_sim_insn = 41210` becomes

    `gpu_sim_WARNING: xz: slow reader` and `insn = 41210`.
    """
    missing = [key for key in TORN_KEYS if key not in stats]
    for first, second in zip(lines, lines[1:], strict=False):
        if "=" in first:
            continue
        rest = second.partition("=")[0].strip()
        if rest and any(key.endswith(rest) and first.startswith(key[: -len(rest)]) for key in missing):
            stats.pop(rest, None)
