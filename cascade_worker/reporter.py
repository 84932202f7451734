"""Ordered, resumable upload of the log: what is spooled on disk is sent until the server has all of it, exactly once.

The server counts the lines it holds, so a chunk may be sent again after any doubt: it drops what it has, and asks with
409 for what it lacks.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Protocol

from cascade_server.contract.client import CascadeError, Conflict
from cascade_server.contract.models import Heartbeat, HeartbeatReply, LogReply, SimFile, StepTimelineBody
from cascade_server.contract.text import line_from_bytes

from .retry import Backoff, SimOver, Undeliverable, check_retryable, may_have_arrived
from .spool import CHUNK_BYTES, Chunk, Spool

log = logging.getLogger(__name__)

GATHER_S = 0.3
"""Small writes are gathered for so long before they are sent."""


class Server(Protocol):
    """The calls of the client that a worker makes."""

    async def post_logs(self, sim_id: str, seq: int, lines: Sequence[str], *, unterminated: bool = False) -> LogReply:
        """See `CascadeClient.post_logs`."""

    async def heartbeat(self, sim_id: str, beat: Heartbeat) -> HeartbeatReply:
        """See `CascadeClient.heartbeat`."""

    async def put_file(self, sim_id: str, name: str, data: AsyncIterator[bytes] | bytes) -> SimFile:
        """See `CascadeClient.put_file`."""

    async def post_step_timeline(self, sim_id: str, body: StepTimelineBody) -> None:
        """See `CascadeClient.post_step_timeline`."""


class Reporter:
    """Sends a spool's lines, and in the end the sim's final heartbeat.

    While the simulator runs it never gives up on an absent server; after `close` it does so when nothing got through
    for `patience_s` seconds.
    """

    def __init__(
        self,
        server: Server,
        sim_id: str,
        spool: Spool,
        *,
        patience_s: float,
        gather_s: float = GATHER_S,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        draw: Callable[[float, float], float] = random.uniform,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._server = server
        self._sim_id = sim_id
        self._spool = spool
        self._patience_s = patience_s
        self._gather_s = gather_s
        self._sleep = sleep
        self._draw = draw
        self._clock = clock
        self._news = asyncio.Event()
        self._urgent = asyncio.Event()
        self._seq = 0
        self._offset = 0
        self._waiting_since = clock()

    @property
    def pending(self) -> int:
        """Bytes spooled and not yet acknowledged."""
        return self._spool.size - self._offset

    def notify(self) -> None:
        """Say that the spool has grown."""
        self._news.set()
        if self.pending >= CHUNK_BYTES:
            self._urgent.set()

    def close(self) -> None:
        """Say that nothing more will be written; `run` then ends when all is delivered."""
        self._spool.closed = True
        self._waiting_since = self._clock()
        self._news.set()
        self._urgent.set()

    async def run(self) -> None:
        """Send until all is delivered after `close`. Raises SimOver or Undeliverable."""
        backoff = Backoff(self._draw)
        while True:
            await self._gather()
            chunk = self._spool.read(self._seq, self._offset)
            if chunk is None:
                if self._spool.closed:
                    return
                continue
            try:
                next_seq = await self._post(chunk)
                self._go_on_from(next_seq, chunk)
                if next_seq > chunk.seq:
                    backoff.reset()
                    self._waiting_since = self._clock()
                else:
                    await self._sleep(backoff.next())
            except CascadeError as error:
                await self._wait(error, backoff)
                if isinstance(error, Conflict) and error.next_seq is not None:
                    self._go_on_from(error.next_seq, chunk)
            self._look_again()

    async def finish(self, beat: Heartbeat) -> HeartbeatReply:
        """Send the sim's last heartbeat. Raises SimOver or Undeliverable.

        After a try whose answer was lost, a refused token means that it had arrived: a finished sim's token is void.
        """
        backoff = Backoff(self._draw)
        self._waiting_since = self._clock()
        tried = False
        while True:
            try:
                return await self._server.heartbeat(self._sim_id, beat)
            except CascadeError as error:
                try:
                    await self._wait(error, backoff)
                except SimOver:
                    if tried:
                        return HeartbeatReply(cancel=False)
                    raise
                tried = tried or may_have_arrived(error)

    async def _gather(self) -> None:
        """Wait until there is something to send, and a little longer for more unless it is much or the last."""
        await self._news.wait()
        if not self._urgent.is_set():
            try:
                async with asyncio.timeout(self._gather_s):
                    await self._urgent.wait()
            except TimeoutError:
                pass
        self._news.clear()
        self._urgent.clear()

    def _look_again(self) -> None:
        if self.pending or self._spool.closed:
            self._news.set()
        if self.pending >= CHUNK_BYTES or self._spool.closed:
            self._urgent.set()

    async def _post(self, chunk: Chunk) -> int:
        lines = [line_from_bytes(line) for line in chunk.lines]
        reply = await self._server.post_logs(self._sim_id, chunk.seq, lines, unterminated=chunk.unterminated)
        return reply.next_seq

    def _go_on_from(self, next_seq: int, chunk: Chunk) -> None:
        if next_seq == chunk.seq + len(chunk.lines):
            self._seq, self._offset = next_seq, chunk.end
            return
        offset = self._spool.find(next_seq)
        if offset is None:
            raise Undeliverable(
                f"The server holds {next_seq:,} lines of this sim, more than its simulator printed: another worker "
                "reports on it."
            )
        self._seq, self._offset = next_seq, offset

    async def _wait(self, error: CascadeError, backoff: Backoff) -> None:
        check_retryable(error, self._sim_id)
        waited = self._clock() - self._waiting_since
        if self._spool.closed and waited > self._patience_s:
            raise Undeliverable(f"The server took nothing for {waited:,.0f} s; the last error: {error}") from error
        pause = backoff.next()
        log.warning("%s; %d bytes wait, trying again in %.1f s", error, self.pending, pause)
        await self._sleep(pause)
