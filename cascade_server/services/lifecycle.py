"""The only place that changes a sim's state.

Every change is a move of the table in `contract.states`; any other is ignored. What was changed is published after
the commit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any

import aiosqlite

from cascade_server.contract.events import RunChangedEvent, SimEvent
from cascade_server.contract.models import Heartbeat
from cascade_server.contract.states import FINISHED, SimState, may_move
from cascade_server.db import runs, sims
from cascade_server.db.connection import Database
from cascade_server.errors import NotFoundError

from .bus import SERVER_TOPIC, Bus

log = logging.getLogger(__name__)

STARTED = (SimState.LAUNCHING, SimState.RUNNING, SimState.LOST)
UNFINISHED = (SimState.PENDING, *STARTED)
GIVE_UP_AFTER = 10
"""A sim that is lost for so many heartbeat timeouts has failed."""


class Lifecycle:
    """Moves sims from state to state."""

    def __init__(
        self,
        db: Database,
        bus: Bus,
        *,
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
        heartbeat_timeout_s: float,
    ) -> None:
        self._db = db
        self._bus = bus
        self._now = now
        self._monotonic = monotonic
        self._timeout = heartbeat_timeout_s
        # When each sim was last heard of, on the monotonic clock: wall clocks jump, and time that the server was
        # down must not count as silence, so every sim starts afresh with the server.
        self._heard: dict[str, float] = {}
        self.on_finished: list[Callable[[str], None]] = []
        """Called with a sim's id after it reached a final state."""

    async def heartbeat(self, sim_id: str, beat: Heartbeat) -> bool:
        """Take a worker's word; returns whether the worker should stop.

        On a finished sim it changes nothing. Raises NotFoundError.
        """
        async with self._db.transaction() as db:
            head = await _head(db, sim_id)
            if head.state.is_finished:
                gave_up = head.state is SimState.FAILED and beat.state is SimState.RUNNING
                return head.state is SimState.CANCELLED or gave_up
            now = self._now().isoformat()
            if head.state is SimState.PENDING:
                # A worker started by hand: its sim was not launched by us.
                await self._move(db, head, SimState.LAUNCHING)
            values: dict[str, Any] = {"last_heartbeat_at": now, "error": beat.error}
            if beat.state is SimState.RUNNING:
                values["error"] = None
            if beat.exit_code is not None:
                values["exit_code"] = beat.exit_code
            row = await sims.column(db, sim_id, "started_at")
            if row is not None and row["started_at"] is None:
                values["started_at"] = now
            await sims.update(db, sim_id, values)
            if beat.state is not SimState.RUNNING or head.state is not SimState.RUNNING:
                fresh = await _head(db, sim_id)
                await self._move(db, fresh, SimState(beat.state))
        self._heard[sim_id] = self._monotonic()
        await self._published(head.run_id, [sim_id])
        if beat.state is not SimState.RUNNING:
            self._finished(sim_id)
        return False

    async def cancel_run(self, run_id: str) -> list[str]:
        """Cancel every unfinished sim of a run; returns their ids. Raises NotFoundError."""
        async with self._db.transaction() as db:
            if not await runs.exists(db, run_id):
                raise NotFoundError(f"There is no run {run_id!r}.")
            heads = await sims.heads(db, UNFINISHED, run_id=run_id)
            for head in heads:
                await self._move(db, head, SimState.CANCELLED)
        ids = [head.id for head in heads]
        await self._published(run_id, ids)
        for sim_id in ids:
            self._finished(sim_id)
        return ids

    async def launching(self, sim_id: str) -> bool:
        """Mark a pending sim as being launched; False when it may not be (cancelled meanwhile)."""
        return await self._change(sim_id, SimState.LAUNCHING, {})

    async def launched(self, sim_id: str, launcher_ref: str) -> bool:
        """Note where a sim runs; False when it has finished meanwhile, so its worker must be stopped."""
        async with self._db.transaction() as db:
            head = await _head(db, sim_id)
            await sims.update(db, sim_id, {"launcher_ref": launcher_ref})
        self._heard.setdefault(sim_id, self._monotonic())
        await self._published(head.run_id, [sim_id])
        return not head.state.is_finished

    async def fail(self, sim_id: str, error: str, *, exit_code: int | None = None) -> bool:
        """Fail a sim for a reason its worker can't report; False when it has finished already."""
        values: dict[str, Any] = {"error": error}
        if exit_code is not None:
            values["exit_code"] = exit_code
        return await self._change(sim_id, SimState.FAILED, values)

    async def check_silence(self) -> None:
        """Mark started sims that have been silent too long as lost, and those lost too long as failed."""
        now = self._monotonic()
        async with self._db.read() as db:
            heads = await sims.heads(db, STARTED)
        for head in heads:
            silence = now - self._heard.setdefault(head.id, now)
            if silence > self._timeout and head.state is not SimState.LOST:
                await self._change(head.id, SimState.LOST, {}, only_from=(head.state,))
                log.warning("sim %s is lost: no heartbeat for %.0f s", head.id, silence)
            elif silence > (1 + GIVE_UP_AFTER) * self._timeout and head.state is SimState.LOST:
                await self.fail(head.id, f"The worker has not been heard of for {silence:.0f} s.")

    # -- within ------------------------------------------------------------------------------

    async def _change(
        self,
        sim_id: str,
        state: SimState,
        values: dict[str, Any],
        *,
        only_from: Collection[SimState] = tuple(SimState),
    ) -> bool:
        async with self._db.transaction() as db:
            head = await _head(db, sim_id)
            if head.state not in only_from or not await self._move(db, head, state):
                return False
            if values:
                await sims.update(db, sim_id, values)
        await self._published(head.run_id, [sim_id])
        if state in FINISHED:
            self._finished(sim_id)
        return True

    async def _move(self, db: aiosqlite.Connection, head: sims.SimHead, state: SimState) -> bool:
        if not may_move(head.state, state):
            return False
        values: dict[str, Any] = {"state": state}
        if state in FINISHED:
            values |= {"finished_at": self._now().isoformat(), "blocks_issued": None, "blocks_total": None}
        await sims.update(db, head.id, values)
        return True

    async def _published(self, run_id: str, sim_ids: Collection[str]) -> None:
        if not sim_ids:
            return
        if self._bus.watched(run_id):
            async with self._db.read() as db:
                for sim_id in sim_ids:
                    if (sim := await sims.get(db, sim_id)) is not None:
                        self._bus.publish(run_id, SimEvent(sim=sim))
        if self._bus.watched(SERVER_TOPIC):
            async with self._db.read() as db:
                for run in await runs.summaries(db, run_id):
                    self._bus.publish(SERVER_TOPIC, RunChangedEvent(run=run))

    def _finished(self, sim_id: str) -> None:
        self._heard.pop(sim_id, None)
        for callback in self.on_finished:
            callback(sim_id)


async def _head(db: aiosqlite.Connection, sim_id: str) -> sims.SimHead:
    head = await sims.head(db, sim_id)
    if head is None:
        raise NotFoundError(f"There is no sim {sim_id!r}.")
    return head
