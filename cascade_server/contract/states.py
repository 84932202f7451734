"""States of traces, sims and runs, and the one table of legal moves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum


class TraceState(StrEnum):
    """Where a trace stands between its first file and being ready to simulate."""

    UPLOADING = "uploading"
    PROCESSING = "processing"
    READY = "ready"
    FAILED = "failed"


class SimState(StrEnum):
    """Where a sim stands; `succeeded`, `failed` and `cancelled` are final."""

    PENDING = "pending"
    LAUNCHING = "launching"
    RUNNING = "running"
    LOST = "lost"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_finished(self) -> bool:
        """True for the three states that a sim never leaves."""
        return self in FINISHED


class RunState(StrEnum):
    """Derived from a run's sims, never stored."""

    ACTIVE = "active"
    SUCCEEDED = "succeeded"
    PARTIAL = "partial"
    FAILED = "failed"
    CANCELLED = "cancelled"


FINISHED = frozenset({SimState.SUCCEEDED, SimState.FAILED, SimState.CANCELLED})

MOVES: Mapping[SimState, frozenset[SimState]] = {
    SimState.PENDING: frozenset({SimState.LAUNCHING, SimState.FAILED, SimState.CANCELLED}),
    SimState.LAUNCHING: frozenset({SimState.RUNNING, SimState.LOST}) | FINISHED,
    SimState.RUNNING: frozenset({SimState.LOST}) | FINISHED,
    SimState.LOST: frozenset({SimState.RUNNING}) | FINISHED,
    SimState.SUCCEEDED: frozenset(),
    SimState.FAILED: frozenset(),
    SimState.CANCELLED: frozenset(),
}


def may_move(old: SimState, new: SimState) -> bool:
    """Tell whether a sim may go from `old` to `new`; staying is no move."""
    return new in MOVES[old]


def run_state(sims: Iterable[SimState]) -> RunState:
    """Derive a run's state from the states of its sims (at least one)."""
    states = set(sims)
    if not states <= FINISHED:
        return RunState.ACTIVE
    if states == {SimState.SUCCEEDED}:
        return RunState.SUCCEEDED
    if SimState.SUCCEEDED in states:
        return RunState.PARTIAL
    if SimState.CANCELLED in states:
        return RunState.CANCELLED
    return RunState.FAILED
