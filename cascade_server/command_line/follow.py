"""A run's events across lost connections."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

from cascade_server.contract.client import ApiError, CascadeError, Unreachable
from cascade_server.contract.events import KernelEvent, LogEvent, SimEvent, SnapshotEvent

from .client import Client

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 15.0

Event = SnapshotEvent | SimEvent | LogEvent | KernelEvent


class Patience:
    """Decides whether and when to try again after the connection was lost.

    Waits grow from half a second to 15 s, each shortened at random, so that clients don't come back all at once.
    `say` is told once when the connection is lost and once when it is back.
    """

    def __init__(self, give_up_after_s: float, say: Callable[[str], None]) -> None:
        self._give_up_after_s = give_up_after_s
        self._say = say
        self._lost_at: float | None = None
        self._wait_s = FIRST_WAIT_S

    def connected(self) -> None:
        """Note that the server answers."""
        if self._lost_at is not None:
            self._lost_at = None
            self._wait_s = FIRST_WAIT_S
            self._say("connected again")

    async def wait(self, error: CascadeError) -> None:
        """Wait before the next try. Raises the error when there should be none."""
        # 5xx: what a proxy says while the server behind it is away.
        if not (isinstance(error, Unreachable) or (isinstance(error, ApiError) and error.status in (502, 503, 504))):
            raise error
        now = time.monotonic()
        if self._lost_at is None:
            if self._give_up_after_s <= 0:
                raise error
            self._lost_at = now
            self._say(f"the connection was lost ({error}); trying again")
        elif now - self._lost_at >= self._give_up_after_s:
            raise error
        left = self._lost_at + self._give_up_after_s - now
        await asyncio.sleep(min(left, self._wait_s * random.uniform(0.5, 1.0)))  # noqa: S311 - no secret
        self._wait_s = min(LONGEST_WAIT_S, self._wait_s * 2)


async def events(client: Client, run_id: str, patience: Patience) -> AsyncIterator[Event]:
    """Follow a run; after each new connection begins again with a snapshot. Never ends by itself."""
    while True:
        try:
            async with aclosing(client.run_events(run_id)) as stream:  # type: ignore[type-var]
                async for event in stream:
                    patience.connected()
                    yield event
        except CascadeError as error:
            await patience.wait(error)
