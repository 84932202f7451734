"""Starts pending sims in order as slots come free, and explains the silence of those whose worker is gone."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging

from cascade_server.contract.states import SimState
from cascade_server.db import sims
from cascade_server.db.connection import Database
from cascade_server.errors import LaunchError
from cascade_server.launchers.base import Launcher, Presence, WorkerAccess

from .lifecycle import STARTED, Lifecycle

log = logging.getLogger(__name__)

INTERVAL_S = 1.0


class SimTokens:
    """Tokens of workers: each derived from the server's secret, the sim and its attempt."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def make(self, sim_id: str, attempt: int) -> str:
        """The token of one attempt at one sim."""
        return hmac.new(self._secret, f"{sim_id}:{attempt}".encode(), hashlib.sha256).hexdigest()


def _ours(heads: list[sims.SimHead]) -> list[sims.SimHead]:
    """Without the sims of a sample run: those are filled in, never started."""
    return [head for head in heads if not head.sample]


class Dispatcher:
    """The one task that deals with the launcher."""

    def __init__(self, db: Database, lifecycle: Lifecycle, launcher: Launcher, tokens: SimTokens) -> None:
        self._db = db
        self._lifecycle = lifecycle
        self._launcher = launcher
        self._tokens = tokens
        self._wake = asyncio.Event()
        self._cancelled: set[str] = set()
        self._finished: set[str] = set()

    def wake(self) -> None:
        """There is a new run."""
        self._wake.set()

    def finished(self, sim_id: str) -> None:
        """A sim has ended: a slot came free, and its worker's node can be cleaned up."""
        self._finished.add(sim_id)
        self._wake.set()

    def stop_workers(self, sim_ids: list[str]) -> None:
        """Stop the workers of cancelled sims soon."""
        self._cancelled.update(sim_ids)
        self._wake.set()

    async def run(self, url: str) -> None:
        """Work until cancelled; `url` is where workers reach the server."""
        self._finished.update(await self._launcher.left_behind())
        while True:
            self._wake.clear()
            try:
                await self.step(url)
            except Exception:
                # A fault of one round must not end all launching.
                log.exception("launching failed; trying again")
            try:
                async with asyncio.timeout(INTERVAL_S):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def step(self, url: str) -> None:
        """One round: stop, look, start."""
        while self._cancelled:
            await self._launcher.cancel(self._cancelled.pop())
        await self._lifecycle.check_silence()
        async with self._db.read() as db:
            started = _ours(await sims.heads(db, STARTED))
        await self._look(started, url)
        await self._start(url)
        await self._clean()

    async def _look(self, started: list[sims.SimHead], url: str) -> None:
        seen = await self._launcher.observe([head.id for head in started if head.launcher_ref is not None])
        for head in started:
            if head.launcher_ref is None:
                # Marked, then the server was killed before or after the start: submit finds out which.
                if self._launcher.slots != 0 and head.state is SimState.LAUNCHING:
                    await self._submit(head.id, url)
                continue
            observation = seen[head.id]
            if observation.presence is Presence.GONE:
                reason = observation.reason or "The worker is gone."
                if await self._lifecycle.fail(head.id, reason):
                    log.warning("sim %s: %s", head.id, reason)

    async def _start(self, url: str) -> None:
        slots = self._launcher.slots
        async with self._db.read() as db:
            busy = len(_ours(await sims.heads(db, STARTED)))
            pending = _ours(await sims.heads(db, (SimState.PENDING,)))
        free = len(pending) if slots is None else max(0, slots - busy)
        for head in pending[:free]:
            if await self._lifecycle.launching(head.id):
                await self._submit(head.id, url)

    async def _clean(self) -> None:
        for sim_id in list(self._finished):
            async with self._db.read() as db:
                head = await sims.head(db, sim_id)
            unneeded = head is not None and head.state in (SimState.SUCCEEDED, SimState.CANCELLED)
            if head is None or not unneeded or head.sample or await self._launcher.clean(sim_id):
                self._finished.discard(sim_id)

    async def _submit(self, sim_id: str, url: str) -> None:
        async with self._db.read() as db:
            spec = await sims.launch_spec(db, sim_id)
        if spec is None:
            raise LookupError(f"sim {sim_id} has no row")
        access = WorkerAccess(url=url, token=self._tokens.make(sim_id, spec.attempt))
        try:
            ref = await self._launcher.submit(spec, access)
        except LaunchError as error:
            await self._lifecycle.fail(sim_id, str(error))
            return
        if not await self._lifecycle.launched(sim_id, ref):
            # Cancelled while it was being started.
            await self._launcher.cancel(sim_id)
