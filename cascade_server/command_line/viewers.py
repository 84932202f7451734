"""What `watch` shows where there is no terminal: lines for people, events for programs."""

from __future__ import annotations

import sys
from collections import defaultdict
from contextlib import suppress
from typing import Self

import typer

from cascade_server.contract.events import KernelEvent, SimEvent, SnapshotEvent
from cascade_server.contract.models import KernelStat, RunDetail, SimSummary
from cascade_server.contract.states import RunState, SimState, run_state

from .follow import Event
from .text import count, counts_of, harmless, nanoseconds, plural, short_name, sim_name


def say(text: str) -> None:
    """Tell people something on stderr, whatever becomes of it."""
    with suppress(OSError):
        typer.echo(f"cascade: {harmless(text)}", err=True)


class Viewer:
    """Keeps a run as its events tell it; subclasses show it."""

    def __init__(self, run: RunDetail) -> None:
        self.run = run
        self.sims = {sim.id: sim for sim in run.sims}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        return None

    @property
    def state(self) -> RunState:
        """The run's state by what is known of its sims."""
        return run_state(sim.state for sim in self.sims.values())

    @property
    def counts(self) -> dict[SimState, int]:
        """How many sims are in which state."""
        found: dict[SimState, int] = defaultdict(int)
        for sim in self.sims.values():
            found[sim.state] += 1
        return found

    def take(self, event: Event) -> None:
        """Apply an event."""
        if isinstance(event, SnapshotEvent):
            self.run = event.run
            self.sims = {sim.id: sim for sim in event.run.sims}
        elif isinstance(event, SimEvent):
            self.sims[event.sim.id] = event.sim

    def say(self, text: str) -> None:
        """Tell of a lost connection."""
        say(text)

    def end(self) -> None:
        """Show how the run ended."""


class Json(Viewer):
    """Each event as the API's JSON on a line of its own; the last is a snapshot of the ended run."""

    def take(self, event: Event) -> None:
        """Print the event."""
        super().take(event)
        sys.stdout.write(event.model_dump_json() + "\n")
        sys.stdout.flush()


class Lines(Viewer):
    """A line for each change of a sim's state and for each kernel, each told once."""

    def __init__(self, run: RunDetail) -> None:
        super().__init__(run)
        self._states: dict[str, SimState] = {}
        self._kernels: dict[str, dict[int, bool]] = defaultdict(dict)

    async def __aenter__(self) -> Self:
        if self.run.notice:
            self._line(f"Notice: {self.run.notice}")
        self._line(f"{self.run.id}: {plural(len(self.sims), 'sim')} of {self.run.trace_id}")
        return self

    def take(self, event: Event) -> None:
        """Print what the event brings that is new."""
        super().take(event)
        if isinstance(event, SnapshotEvent):
            for sim in event.run.sims:
                self._sim(sim)
            for stat in event.kernels:
                self._kernel(stat)
        elif isinstance(event, SimEvent):
            self._sim(event.sim)
        elif isinstance(event, KernelEvent):
            self._kernel(event.stat)

    def end(self) -> None:
        """Print the run's own state."""
        for sim in self.sims.values():
            self._sim(sim, complete=True)
        self._line(f"{self.run.id}: {self.state} ({counts_of(self.counts)})")

    def _sim(self, sim: SimSummary, *, complete: bool = False) -> None:
        if self._states.get(sim.id) is sim.state:
            return
        if sim.state.is_finished and not complete and len(self._kernels[sim.id]) < sim.kernels_done:
            # Its last kernels are still on the way and come first.
            return
        self._states[sim.id] = sim.state
        self._line(f"{_named(sim)}: {sim.state}{f': {sim.error}' if sim.error else ''}")

    def _kernel(self, stat: KernelStat) -> None:
        sim, told = self.sims.get(stat.sim_id), self._kernels[stat.sim_id]
        if sim is None or told.get(stat.kernel_index) is stat.partial:
            return
        told[stat.kernel_index] = stat.partial
        # A stand-in's recording has kernels of its own, not the trace's.
        of = f"/{sim.kernels_total}" if sim.kernels_total and not sim.stand_in else ""
        cut = ", cut short by a limit" if stat.partial else ""
        self._line(
            f"{_named(sim)}: kernel {stat.kernel_index + 1}{of} {short_name(stat.kernel_name)}: "
            f"{count(stat.gpu_sim_cycle)} cycles, {nanoseconds(stat.sim_time_ns)}{cut}"
        )
        if sim.state.is_finished:
            self._sim(sim)

    def _line(self, text: str) -> None:
        sys.stdout.write(harmless(text) + "\n")
        sys.stdout.flush()


def _named(sim: SimSummary) -> str:
    return f"{sim.id} {sim_name(sim)}{' (stand-in)' if sim.stand_in else ''}"
