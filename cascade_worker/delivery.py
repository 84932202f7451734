"""Sends what a sim left beside its log: tried again and again like everything else, but never worth failing the sim."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Protocol

from cascade_server.contract.client import CascadeError, Unreachable
from cascade_server.contract.models import Heartbeat, StepTimelineBody
from cascade_server.contract.states import SimState

from .reporter import Server
from .retry import Backoff, Undeliverable, check_retryable

log = logging.getLogger(__name__)

TRIES = 6
"""Something that failed so often while the server takes heartbeats is given up: it is not the server that is away."""

STALL_S = 120.0
"""A server that takes no byte for so long is as good as away; longer than the client waits for an answer."""


class Content(Protocol):
    """A file's bytes, from the start at each call of `stream`."""

    error: OSError | None
    """Why they could not be read."""
    taken: int
    """Bytes handed out so far, over all calls."""

    def stream(self) -> AsyncIterator[bytes]:
        """All of them."""


class Delivery:
    """Sends one thing after another. Raises SimOver, and Undeliverable when the server was away for `patience_s`."""

    def __init__(
        self,
        server: Server,
        sim_id: str,
        *,
        patience_s: float,
        stall_s: float = STALL_S,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        draw: Callable[[float, float], float] = random.uniform,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._server = server
        self._sim_id = sim_id
        self._patience_s = patience_s
        self._stall_s = stall_s
        self._sleep = sleep
        self._draw = draw
        self._clock = clock
        self._waiting_since = clock()

    async def put(self, name: str, content: Content) -> bool:
        """Upload a file; false, and a line in the worker's log, when that can't be done."""

        async def once() -> None:
            await self._while_it_moves(self._server.put_file(self._sim_id, name, content.stream()), content)

        return await self._send(f"the file {name}", once, content)

    async def post_step_timeline(self, body: StepTimelineBody) -> bool:
        """Send the step timeline, in the same way."""

        async def once() -> None:
            await self._server.post_step_timeline(self._sim_id, body)

        return await self._send("the step timeline", once)

    async def _send(self, what: str, once: Callable[[], Awaitable[None]], content: Content | None = None) -> bool:
        backoff = Backoff(self._draw)
        self._waiting_since = self._clock()
        tries = 0
        while True:
            try:
                await once()
            except (CascadeError, ValueError) as error:  # ValueError: an answer that is none of the server's
                tries += 1
                if content is not None and content.error is not None:
                    log.warning("%s is left out: it can't be read (%s)", what, content.error.strerror)
                    return False
                if self._refused(error) or (tries % TRIES == 0 and await self._server_is_there()):
                    log.warning("%s is left out: %s", what, error)
                    return False
                await self._wait(what, error, backoff)
            else:
                return True

    def _refused(self, error: CascadeError | ValueError) -> bool:
        if not isinstance(error, CascadeError):
            return False
        try:
            check_retryable(error, self._sim_id)
        except Undeliverable:
            return True
        return False

    async def _server_is_there(self) -> bool:
        try:
            await self._server.heartbeat(self._sim_id, Heartbeat(state=SimState.RUNNING))
        except CascadeError as error:
            self._refused(error)  # raises SimOver
            return False
        return True

    async def _wait(self, what: str, error: Exception, backoff: Backoff) -> None:
        waited = self._clock() - self._waiting_since
        if waited > self._patience_s:
            raise Undeliverable(f"The server took nothing for {waited:,.0f} s; the last error: {error}") from error
        pause = backoff.next()
        log.warning("%s: %s; trying again in %.1f s", what, error, pause)
        await self._sleep(pause)

    async def _while_it_moves(self, call: Coroutine[Any, Any, object], content: Content) -> None:
        task = asyncio.create_task(call)
        try:
            while not task.done():
                before = content.taken
                await asyncio.wait({task}, timeout=self._stall_s)
                if not task.done() and content.taken == before:
                    raise Unreachable(f"the server took no byte for {self._stall_s:g} s")
            task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
