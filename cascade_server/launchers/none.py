"""No launcher: sims wait for workers that are started by hand with `cascade worker`."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from cascade_server.db.sims import LaunchSpec

from .base import Launcher, Observation, Presence, WorkerAccess


class NoLauncher(Launcher):
    """Starts nothing; it has no slots, so it is never asked to."""

    slots = 0

    async def submit(self, spec: LaunchSpec, access: WorkerAccess) -> str:
        """Never called, as there are no slots."""
        raise AssertionError("a launcher without slots was asked to start a sim")

    async def observe(self, sim_ids: Collection[str]) -> Mapping[str, Observation]:
        """Nothing is known of workers started elsewhere."""
        return dict.fromkeys(sim_ids, Observation(Presence.UNKNOWN))

    async def cancel(self, sim_id: str) -> None:
        """The worker learns it from its next heartbeat."""
