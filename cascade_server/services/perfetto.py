"""A run as a Chrome trace, the JSON that ui.perfetto.dev, chrome://tracing and speedscope load.

Format: "Trace Event Format", JSON object form. A config is a process, a replica a thread, a finished kernel a complete
slice (`ph: "X"`); `ts` and `dur` are in µs. Kernels are laid end to end by their simulated time: the simulator prints
how long a kernel took, not what lay between kernels.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from pydemumble import demangle

from cascade_server.contract.models import KernelStat, RunDetail
from cascade_server.contract.text import may_demangle

LISTED = 100
"""So many kernels without a time are named; all are counted."""

_LONGEST_NS = 1e18  # 30 years; a longer kernel is an overflow of the simulator's
_LAID = "Kernels are laid end to end by their simulated time; gaps between kernels are not simulated."


@lru_cache(maxsize=8192)
def readable_name(name: str) -> str:
    """A kernel name demangled; what is not mangled, or can't be read, stays as it is.

    A block of concurrent kernels names several, parted by blanks: joined by ` + `.
    """
    words = name.split(" ")
    if len(words) > 1 and all(word.startswith("_Z") for word in words):
        return " + ".join(readable_name(word) for word in words)
    if may_demangle(name):
        return demangle(name) or name
    return name


def chrome_trace(run: RunDetail, clocks: Mapping[str, float], kernels: Iterable[KernelStat]) -> Iterator[str]:
    """The trace as pieces of ASCII JSON text, a kernel a piece, so that no run needs to be held as text.

    `clocks` are core clocks in MHz by config; `kernels` are the run's by config, replica and order, without stats.
    Kernels without a time (none printed, negative after an overflow, no clock) are left out and counted in
    `otherData.kernels_without_time`.
    """
    pids = {config: pid for pid, config in enumerate(dict.fromkeys(e.gpu_config for e in run.entries), 1)}
    place = {sim.id: (pids[sim.gpu_config], sim.replica + 1) for sim in run.sims}
    skipped: list[dict[str, Any]] = []
    count = 0
    comma = ""
    yield '{"displayTimeUnit":"ns","traceEvents":['
    for event in _names(run, pids):
        yield comma + _json(event)
        comma = ",\n"
    ends: dict[str, _End] = {}
    for kernel in kernels:
        where = place.get(kernel.sim_id)
        if where is None:
            continue
        dur = _dur_us(kernel.sim_time_ns)
        if dur is None:
            count += 1
            if len(skipped) < LISTED:
                skipped.append({"sim_id": kernel.sim_id, "kernel_index": kernel.kernel_index})
            continue
        ts = ends.setdefault(kernel.sim_id, _End()).lay(dur)
        yield comma + _json(_slice(kernel, where, ts, dur))
        comma = ",\n"
    other = _other_data(run, pids, clocks) | {"kernels_without_time": {"count": count, "first": skipped}}
    yield f'],"otherData":{_json(other)}}}\n'


def _names(run: RunDetail, pids: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    for config, pid in pids.items():
        # With the first thread's id: readers make up an empty thread for an event without one.
        yield _metadata("process_name", pid, 1, name=config)
        yield _metadata("process_sort_index", pid, 1, sort_index=pid)
    for sim in run.sims:
        pid, tid = pids[sim.gpu_config], sim.replica + 1
        yield _metadata("thread_name", pid, tid, name=f"replica {sim.replica} ({sim.id})")
        yield _metadata("thread_sort_index", pid, tid, sort_index=sim.replica)


def _metadata(what: str, pid: int, tid: int, **args: str | int) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "ts": 0, "args": args}


def _slice(kernel: KernelStat, where: tuple[int, int], ts: float, dur: float) -> dict[str, Any]:
    args = {
        "cycles": kernel.gpu_sim_cycle,
        "instructions": kernel.gpu_sim_insn,
        "ipc": kernel.gpu_ipc if kernel.gpu_ipc is not None and math.isfinite(kernel.gpu_ipc) else None,
        "kernel_index": kernel.kernel_index,
        "mangled_name": kernel.kernel_name,
        "partial": kernel.partial,
    }
    return {
        "ph": "X",
        "cat": "kernel",
        "name": readable_name(kernel.kernel_name) or f"kernel {kernel.kernel_index} (no name printed)",
        "pid": where[0],
        "tid": where[1],
        "ts": ts,
        "dur": dur,
        "args": {key: value for key, value in args.items() if value is not None},
    }


def _dur_us(sim_time_ns: float | None) -> float | None:
    if sim_time_ns is None or not 0 <= sim_time_ns <= _LONGEST_NS:
        return None
    return sim_time_ns / 1000


class _End:
    """Where a thread's slices end so far."""

    def __init__(self) -> None:
        self._us = 0.0
        self._lost = 0.0  # what rounding took off `_us`: thousands of kernels are added up
        self._whole_ns = 0

    def lay(self, dur: float) -> float:
        """Start of the next slice in µs, which lasts `dur` µs: never before the last one's end.

        Readers either compare floats or cut `ts` and `dur` to whole ns each; an overlap by the last bit would nest
        the next kernel inside this one. So `ts` is moved up by a bit where needed.
        """
        ts = self._us
        while int(ts * 1000) < self._whole_ns:
            ts = math.nextafter(ts, math.inf)
        self._whole_ns = int(ts * 1000) + int(dur * 1000)
        step = dur - self._lost
        end = ts + step
        self._lost = (end - ts) - step
        self._us = max(end, ts + dur)
        return ts


def _other_data(run: RunDetail, pids: Mapping[str, int], clocks: Mapping[str, float]) -> dict[str, Any]:
    return {
        "run_id": run.id,
        "trace_id": run.trace_id,
        "notice": run.notice,
        "layout": _LAID,
        "configs": [
            {"pid": pid, "gpu_config": config, "core_clock_mhz": clocks.get(config)} for config, pid in pids.items()
        ],
    }


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
