"""One stats block of the simulator → its map of keys and values.

A block is what Accel-Sim (GPGPU-Sim 4.2.0) prints when a kernel ends, from `kernel_name = …` to
`gpgpu_silicon_slowdown = …`: 870 to 4,300 lines with a `=`, 55 to 290 KB.

Keys
    The first `=` of a line splits key from value; both are stripped of blanks.
    `n_cmd=18112 n_nop=18074 …` gives one key for each pair. `L1D_cache_core[0]: Access = 48, Miss = 48, …` and
    `mrqq: max=14 avg=0.07` give `L1D_cache_core[0].Access`, `mrqq.max` and so on.
    `traffic_breakdown_coretomem[GLOBAL_ACC_R] = 4096 {8:512,}` gives the bytes (4096) under its key and the number of
    packets of each size under `traffic_breakdown_coretomem[GLOBAL_ACC_R]{8}` (512).
    `chip skew: 32/32 = 1.00` and `bank skew: …` have the name before the colon as key and the rest as text, since the
    fraction before the `=` differs from block to block; `average row locality = 512/32 = 16.0` is text as well.
    `Stall:0<tab>W0_Idle:16096…` (warp occupancy) gives `Stall`, `W0_Idle`, `W1`, …;
    `single_issue_nums: WS0:208 …` gives `single_issue_nums.WS0`, and `dual_issue_nums` likewise.

Repeated keys
    The first keeps the bare name, later ones get `#2`, `#3`, … in the order of printing: a key of the memory channels
    (`bw_util`, `Row_Buffer_Locality`) has channel 0 under its bare name and channel 1 under `#2`. Some names are
    printed twice for each channel (`n_act`, `n_req`, `total_CMD`): their `#2` is still channel 0.
    `gpgpu_simulation_rate` is an exception: the bare key is the one in inst/sec, the other one is
    `gpgpu_simulation_rate (cycle/sec)`.

Values
    Integers are exact Python ints (they pass 2^53 and may be negative), numbers with a point or an exponent floats;
    `%`, `x`, `!`, `GB/Sec`, `(inst/sec)` and their like are taken off. `gpgpu_simulation_time` is the seconds in its
    brackets. `nan`, `-nan`, `inf` stay the printed text (`-nan%`), as does every other value: nothing here is a float
    that JSON lacks. `kernel_name` is always text; `kernel_launch_uid` is an int, or text when none or several are
    printed (`1 2`).

Broken lines (another program's message in the middle, control bytes, a lost line end) are left out or kept as text: a
value is a number only when the whole of it is one, and a key must look like one. When one of the keys in `TORN_KEYS` is
missing, the rest of its torn line is looked for and left out too.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, compress, count, pairwise
from operator import ne
from typing import NamedTuple

from cascade_server.simlog import pairs as known
from cascade_server.simlog.pairs import StatValue, learn_key, learn_pairs, learn_value

# Left out, since nothing in them names a value:
#   headings: `L1I_cache:`, `Total_core_cache_stats:`, `========= … =========`, `-----…-----`, `BW Util details:`,
#     `BW Util Bottlenecks:`, `Commands details:`, `Dual Bus Interface Util:`, `Memory Partition 0:`,
#     `Cache L2_bank_000:`, `MSHR contents`, `Memory Sub Parition 0: pending memory requests:`;
#   per-bank tables under headings (`maximum service time to same row:`, `average mf latency per bank:` and others):
#     `dram[3]: 0 0 …`, and `bk0: 16a 17962i bk1: …`;
#   histograms of unnamed bins: `mrq_lat_table:40 8 …`, `dram_util_bins: 0 0 …`, `LD_mem_lat_dist  0 0 …`,
#     `ctas_completed 16, Shader 0 …` with the lines `warp_id:`, `distro:` and their rows;
#   `total accesses: 512`, the sum of `total dram reads` and `total dram writes`.
# Left out, since they are no statistics:
#   `DRAM[0]: 16 bks, busW=2 BL=16 …`, the configuration, once for each channel;
#   momentary contents of queues: `  mf: uid= 1826, sid08:w00, …` (a line for each pending request, while other kernels
#     run) and `In Dram Latency Queue (total = 0):`.

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

_OCCUPANCY_HEADING = "Warp Occupancy Distribution:"


class _Read(NamedTuple):
    """A block that was read, so that only what is new in the next one needs to be."""

    lines: list[str]
    """Those that may hold pairs."""
    heads: list[str | None]
    """What stands before the `=` of each; None when the line is no plain `key = value`."""
    keys: list[tuple[str, ...]]
    """The keys of each, as printed."""
    names: list[tuple[str, ...]]
    """The keys of each, told apart by #2, #3, …."""
    stats: dict[str, StatValue]


# Blocks of one log print the same keys on the same lines, and half of their lines don't change from block to block. As
# with the caches in `pairs`, what is remembered changes the speed of a call, never its result.
_MOST_READ = 16
_LONGEST_READ = 20_000
_last_read: dict[int, _Read] = {}  # number of lines that may hold pairs → the last such block


def block_stats(lines: Sequence[str]) -> dict[str, StatValue]:
    """The block's keys and values by the rules above; never raises, always fit for JSON.

    In the order of printing, with the warp occupancy and issue lines at the end.
    """
    with_pairs = [line for line in lines if "=" in line]
    with_pairs += [line for line in _after_heading(lines, _OCCUPANCY_HEADING, 3) if "=" not in line]
    last = _last_read.get(len(with_pairs))
    read = (last and _read_changes(last, with_pairs)) or _read_all(with_pairs)
    if len(with_pairs) <= _LONGEST_READ:
        if last is None and len(_last_read) >= _MOST_READ:
            _last_read.clear()
        _last_read[len(with_pairs)] = read
    stats = read.stats.copy()
    if not stats.keys() >= _TORN_SET:
        _leave_out_torn(stats, lines)
    return stats


def _read_all(lines: list[str]) -> _Read:
    """Reads each line of a block."""
    heads: list[str | None] = []
    keys: list[tuple[str, ...]] = []
    values: list[StatValue] = []
    for line in lines:
        head, equals, tail = line.partition("=")
        key = known.keys_of_heads.get(head) if equals else ""
        if key is None:
            key = learn_key(head)
        if key:
            heads.append(head)
            keys.append((key,))
            value = known.values_of_texts.get(tail)
            values.append(learn_value(tail) if value is None else value)
        else:
            heads.append(None)
            pairs = known.pairs_of_lines.get(line) or learn_pairs(line)
            keys.append(pairs[0])
            values += pairs[1]
    names = _told_apart(keys)
    return _Read(lines, heads, keys, names, dict(zip(chain.from_iterable(names), values, strict=True)))


def _told_apart(keys: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The names of each line's keys: `n_cmd`, `n_cmd#2`, `n_cmd#3` for one that three lines print."""
    names = []
    times: dict[str, int] = {}  # how often each key was printed so far
    for line_keys in keys:
        line_names = line_keys
        for at, key in enumerate(line_keys):
            if key in times:
                times[key] = time = times[key] + 1
                line_names = (*line_names[:at], f"{key}#{time}", *line_names[at + 1 :])
            else:
                times[key] = 1
        names.append(line_names)
    return names


def _read_changes(last: _Read, lines: list[str]) -> _Read | None:
    """What `_read_all` would give, by the lines that differ from the last block's; None when one has other keys."""
    stats = last.stats.copy()
    heads, names, value_of = last.heads, last.names, known.values_of_texts.get
    for index in compress(count(), map(ne, lines, last.lines)):
        line = lines[index]
        head, _, tail = line.partition("=")
        if head == heads[index]:
            value = value_of(tail)
            stats[names[index][0]] = learn_value(tail) if value is None else value
        else:
            keys, values = known.pairs_of_lines.get(line) or learn_pairs(line)
            if keys != last.keys[index]:
                return None
            stats.update(zip(names[index], values, strict=True))
    return last._replace(lines=lines, stats=stats)


def _after_heading(lines: Sequence[str], heading: str, count: int) -> Sequence[str]:
    """The `count` lines behind the line `heading`."""
    try:
        start = lines.index(heading) + 1
    except ValueError:
        return ()
    return lines[start : start + count]


def _leave_out_torn(stats: dict[str, StatValue], lines: Sequence[str]) -> None:
    """Takes out what is no key but the end of one.

    The simulator's line `gpu_sim_insn = 41210` with a message of stderr in it comes out as the two lines
    `gpu_sim_WARNING: xz: slow reader` and `insn = 41210`.
    """
    missing = [key for key in TORN_KEYS if key not in stats]
    for first, second in pairwise(lines):
        if "=" in first:
            continue
        rest = second.partition("=")[0].strip()
        if rest and any(key.endswith(rest) and first.startswith(key[: -len(rest)]) for key in missing):
            stats.pop(rest, None)
