"""The one copy of what the server told: a cache that can be thrown away at any time.

No I/O and no widgets. `RunData.apply` takes the events of a run in any order, doubled or coalesced, since the
answers of plain calls (a cancel, a poll) overtake and lag behind the stream. Screens read; only `sync` writes.
"""

from __future__ import annotations

import math
import statistics
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum, auto

from cascade_server.contract.events import KernelEvent, LogEvent, SimEvent, SnapshotEvent
from cascade_server.contract.models import (
    GpuConfig,
    Health,
    KernelStat,
    RunDetail,
    RunSummary,
    SimSummary,
    TraceDetail,
    TraceSummary,
)
from cascade_server.contract.states import SimState, run_state

from .log_buffer import LogBuffer

KEPT_RUNS = 4
"""Runs whose data stay for a quick return; the longest unused goes first."""

KEPT_TRACES = 32

_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_STATE_ORDER = {state: index for index, state in enumerate(SimState)}


class Changed(Enum):
    """What an event changed."""

    RUN = auto()
    SIMS = auto()
    KERNELS = auto()
    LOGS = auto()


def newness(sim: SimSummary) -> tuple[bool, datetime, int, int, int, int]:
    """Order the summaries of one sim by when the server made them.

    Every part only grows in a sim's life; within one heartbeat `running` comes before `lost`.
    """
    return (
        sim.state.is_finished,
        sim.last_heartbeat_at or _LONG_AGO,
        sim.log_lines,
        sim.kernels_done,
        _STATE_ORDER[sim.state],
        sim.blocks_issued or 0,
    )


class RunData:
    """One run: its sims, kernels and logs."""

    def __init__(self, run_id: str) -> None:
        self.id = run_id
        self.detail: RunDetail | None = None
        self.missing = ""
        """Why the server has no such run, "" as long as it has."""
        self.version = 0
        """Grows with every change of sims or kernels."""
        self._sims: dict[str, SimSummary] = {}
        self._kernels: dict[tuple[str, int], KernelStat] = {}
        self._logs: dict[str, LogBuffer] = {}

    # -- reading -----------------------------------------------------------------------------

    @property
    def sims(self) -> list[SimSummary]:
        """By the order of the run's entries, then by replica."""
        place = {config: index for index, config in enumerate(self.configs)}
        return sorted(
            self._sims.values(),
            key=lambda sim: (place.get(sim.gpu_config, len(place)), sim.gpu_config, sim.replica, sim.id),
        )

    def sim(self, sim_id: str) -> SimSummary | None:
        """One sim, None when the run has no such."""
        return self._sims.get(sim_id)

    def log(self, sim_id: str) -> LogBuffer:
        """A sim's log, empty when nothing of it came yet."""
        return self._logs.setdefault(sim_id, LogBuffer())

    @property
    def kernels(self) -> list[KernelStat]:
        """Every finished kernel, without statistics, by sim and order."""
        return [self._kernels[key] for key in sorted(self._kernels)]

    @property
    def configs(self) -> list[str]:
        """The run's configs in the order of its entries, without repeats."""
        return list(dict.fromkeys(entry.gpu_config for entry in self.detail.entries)) if self.detail else []

    def kernel_names(self) -> dict[int, str]:
        """The name of the i-th finished kernel, from whichever sim finished it first."""
        names: dict[int, str] = {}
        for stat in self.kernels:
            names.setdefault(stat.kernel_index, stat.kernel_name)
        return names

    def times_ns(self) -> dict[str, dict[int, float]]:
        """Simulated time in ns by config and kernel index: the median over the config's replicas.

        What is missing, not finite, not above 0 or cut short by a limit is left out.
        """
        raw: dict[str, dict[int, list[float]]] = {config: {} for config in self.configs}
        for stat in self._kernels.values():
            sim = self._sims.get(stat.sim_id)
            value = stat.sim_time_ns
            if sim is None or stat.partial or value is None or not math.isfinite(value) or value <= 0:
                continue
            raw.setdefault(sim.gpu_config, {}).setdefault(stat.kernel_index, []).append(value)
        return {
            config: {index: statistics.median(values) for index, values in sorted(by_kernel.items())}
            for config, by_kernel in raw.items()
        }

    def totals_ns(self) -> dict[str, float]:
        """Simulated time of each sim over the kernels it finished, in ns; a sim without any is left out."""
        totals: dict[str, list[float]] = {}
        for stat in self._kernels.values():
            if stat.sim_time_ns is not None and math.isfinite(stat.sim_time_ns):
                totals.setdefault(stat.sim_id, []).append(stat.sim_time_ns)
        return {sim_id: math.fsum(times) for sim_id, times in totals.items()}

    # -- writing -----------------------------------------------------------------------------

    def apply(self, event: SnapshotEvent | SimEvent | LogEvent | KernelEvent) -> set[Changed]:
        """Take an event and tell what it changed; one that says nothing new changes nothing."""
        if isinstance(event, SnapshotEvent):
            return self._snapshot(event)
        if isinstance(event, SimEvent):
            return self._sim(event.sim)
        if isinstance(event, KernelEvent):
            return self._kernel(event.stat)
        return self._log(event)

    def merge_detail(self, detail: RunDetail) -> set[Changed]:
        """Take the answer of a call, which may be older than the stream's last word."""
        changed: set[Changed] = set()
        if self.detail is None:
            self.detail = detail
            changed.add(Changed.RUN)
        for sim in detail.sims:
            changed |= self._sim(sim)
        return changed

    def _snapshot(self, event: SnapshotEvent) -> set[Changed]:
        sims = {sim.id: sim for sim in event.run.sims}
        kernels = {(stat.sim_id, stat.kernel_index): _bare(stat) for stat in event.kernels}
        changed: set[Changed] = set()
        if self.detail is None or self.detail.model_dump(exclude={"sims"}) != event.run.model_dump(exclude={"sims"}):
            changed.add(Changed.RUN)
        self.detail = event.run
        self.missing = ""
        if sims != self._sims:
            changed.add(Changed.SIMS)
            self._sims = sims
        if kernels != self._kernels:
            changed.add(Changed.KERNELS)
            self._kernels = kernels
        for sim_id in self._logs.keys() - sims.keys():
            del self._logs[sim_id]
        for sim in sims.values():
            log = self._logs.setdefault(sim.id, LogBuffer())
            if sim.log_lines < log.end:
                log.reset()
            if self._log_tail(sim):
                changed.add(Changed.LOGS)
        self.version += bool(changed - {Changed.LOGS})
        return changed

    def _sim(self, sim: SimSummary) -> set[Changed]:
        old = self._sims.get(sim.id)
        if sim.run_id != self.id or (old is not None and newness(sim) <= newness(old)):
            return set()
        self._sims[sim.id] = sim
        self.version += 1
        changed = {Changed.SIMS}
        if old is None or old.state is not sim.state:
            self._recount()
            changed.add(Changed.RUN)
        log = self._logs.setdefault(sim.id, LogBuffer())
        log.seen = max(log.seen, sim.log_lines)
        return changed

    def _log_tail(self, sim: SimSummary) -> bool:
        log = self._logs.setdefault(sim.id, LogBuffer())
        log.seen = max(log.seen, sim.log_lines)
        return log.merge(max(0, sim.log_lines - len(sim.log_tail)), sim.log_tail)

    def _kernel(self, stat: KernelStat) -> set[Changed]:
        key = (stat.sim_id, stat.kernel_index)
        old = self._kernels.get(key)
        new = _bare(stat)
        # A kernel is sent again only to say that a limit cut it: that stands, whichever comes last.
        if old == new or (old is not None and old.partial and not new.partial):
            return set()
        self._kernels[key] = new
        self.version += 1
        return {Changed.KERNELS}

    def _log(self, event: LogEvent) -> set[Changed]:
        log = self._logs.setdefault(event.sim_id, LogBuffer())
        first = event.seq if event.seq is not None else log.end
        return {Changed.LOGS} if log.merge(first, event.lines) else set()

    def _recount(self) -> None:
        if self.detail is None:
            return
        counts: dict[SimState, int] = {}
        for sim in self._sims.values():
            counts[sim.state] = counts.get(sim.state, 0) + 1
        self.detail = self.detail.model_copy(update={"sim_counts": counts, "state": run_state(counts)})


def _bare(stat: KernelStat) -> KernelStat:
    """A kernel without its statistics: up to 300 KB each, and nothing here shows them."""
    return stat.model_copy(update={"stats": {}}) if stat.stats else stat


@dataclass
class Store:
    """All that is known of the server."""

    health: Health | None = None
    traces: list[TraceSummary] = field(default_factory=list)
    """Newest first; meaningful once `loaded`."""
    runs: list[RunSummary] = field(default_factory=list)
    """Newest first; meaningful once `loaded`."""
    configs: list[GpuConfig] | None = None
    loaded: bool = False
    """Whether the lists came at least once."""
    _details: OrderedDict[str, TraceDetail] = field(default_factory=OrderedDict)
    _run_data: OrderedDict[str, RunData] = field(default_factory=OrderedDict)

    def trace(self, trace_id: str) -> TraceSummary | None:
        """A trace by id."""
        return next((trace for trace in self.traces if trace.id == trace_id), None)

    def trace_detail(self, trace_id: str) -> TraceDetail | None:
        """A trace with its kernels, as last fetched; None before that."""
        return self._details.get(trace_id)

    def needs_detail(self, trace_id: str) -> bool:
        """Whether a trace's detail was never fetched or is older than the list's entry."""
        summary, detail = self.trace(trace_id), self._details.get(trace_id)
        return summary is not None and (
            detail is None or (detail.updated_at, detail.state) != (summary.updated_at, summary.state)
        )

    def runs_of(self, trace_id: str) -> list[RunSummary]:
        """A trace's runs, newest first."""
        return [run for run in self.runs if run.trace_id == trace_id]

    def run(self, run_id: str) -> RunData:
        """A run's data, made empty when there are none; the longest unused are dropped."""
        data = self._run_data.setdefault(run_id, RunData(run_id))
        self._run_data.move_to_end(run_id)
        while len(self._run_data) > KEPT_RUNS:
            self._run_data.popitem(last=False)
        return data

    def set_lists(self, traces: Sequence[TraceSummary], runs: Sequence[RunSummary]) -> bool:
        """Take both lists as they are now; tell whether anything changed."""
        new = (list(traces), list(runs))
        if self.loaded and new == (self.traces, self.runs):
            return False
        self.traces, self.runs = new
        self.loaded = True
        return True

    def set_detail(self, detail: TraceDetail) -> bool:
        """Take a trace's detail; tell whether it changed."""
        if self._details.get(detail.id) == detail:
            return False
        self._details[detail.id] = detail
        self._details.move_to_end(detail.id)
        while len(self._details) > KEPT_TRACES:
            self._details.popitem(last=False)
        return True


def latest_of(runs: Iterable[RunSummary]) -> RunSummary | None:
    """The newest of some runs."""
    return max(runs, key=lambda run: run.created_at, default=None)
