"""What a launcher must do.

A launcher starts one worker process per sim, somewhere, and can say whether it is still there. The sims' states
are not its business: a worker's heartbeats are the truth, and a launcher only explains silence.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from cascade_server.db.sims import LaunchSpec


class Presence(Enum):
    """Whether a sim's worker is there."""

    ALIVE = auto()
    GONE = auto()
    """It has ended or never was; certain."""
    UNKNOWN = auto()
    """The engine did not answer: assume nothing."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What a launcher sees of one sim; `reason` is a sentence when it is gone."""

    presence: Presence
    reason: str | None = None
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class WorkerAccess:
    """How a worker reaches the server: its URL, and a token good for this one sim."""

    url: str
    token: str


class Launcher(ABC):
    """Starts, observes and stops workers. Calls for one sim never overlap; they may take seconds."""

    slots: int | None = None
    """Sims that may be started and unfinished at once; None leaves the queueing to the engine."""

    @abstractmethod
    async def submit(self, spec: LaunchSpec, access: WorkerAccess) -> str:
        """Start the sim's worker and return the engine's name for it (a pid, a job id).

        Idempotent: for a sim and attempt whose worker was started before (the server may have been killed since)
        nothing is started and the same name returned. Raises LaunchError with a sentence when it can't be
        started, or was started and has ended.
        """

    @abstractmethod
    async def observe(self, sim_ids: Collection[str]) -> Mapping[str, Observation]:
        """Tell of each sim whether its worker is there."""

    async def clean(self, sim_id: str) -> bool:
        """Remove what a sim that needs it no more left on its node; false when its worker is still there.

        Called after a sim has succeeded or was cancelled; what failed is left for people to look at. Repeatable.
        """
        return True

    async def left_behind(self) -> Collection[str]:
        """Sims that may have something to clean, as found when the server starts."""
        return ()

    @abstractmethod
    async def cancel(self, sim_id: str) -> None:
        """Ask the worker to stop, and see to it that it does in the end; repeatable, no error if it is gone."""
