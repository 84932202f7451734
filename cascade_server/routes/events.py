"""The event streams: of a run, and of the whole server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from aiohttp import web

from cascade_server.contract import sse
from cascade_server.contract.client import KEEPALIVE_S
from cascade_server.keys import CORE
from cascade_server.services.bus import SERVER_TOPIC, Bus, Event, Numbered, Published, Signal, Subscription

SEND_TIMEOUT_S = 45.0
"""A client that takes nothing for so long is cut off; it comes back and gets a snapshot."""

HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",
}


async def run_events(request: web.Request) -> web.StreamResponse:
    """GET /api/runs/{run_id}/events."""
    core = request.app[CORE]
    run_id = request.match_info["run_id"]
    return await _stream(request, core.bus, run_id, lambda: core.runs.snapshot(run_id))


async def server_events(request: web.Request) -> web.StreamResponse:
    """GET /api/events."""
    core = request.app[CORE]
    return await _stream(request, core.bus, SERVER_TOPIC, core.runs.server_snapshot)


async def _stream(
    request: web.Request, bus: Bus, topic: str, make_snapshot: Callable[[], Awaitable[Event]]
) -> web.StreamResponse:
    # Subscribe first: what happens while the snapshot is read then comes twice rather than never, and every event
    # can be taken twice (a sim's newest state, a kernel by its index, log lines by their number).
    with bus.subscribe(topic, request.headers.get("Last-Event-ID")) as subscription:
        # Read it even for a client that goes on: it tells whether there is such a run at all.
        snapshot = await make_snapshot()
        response = web.StreamResponse(headers=HEADERS)
        await response.prepare(request)
        out = _Out(request, response, bus, topic, make_snapshot)
        with contextlib.suppress(ConnectionError, TimeoutError):
            if not subscription.resumed:
                await out.send(Published(snapshot).wire(bus.event_id(subscription.number)))
            await out.follow(subscription)
    return response


class _Out:
    """One client's stream."""

    def __init__(
        self,
        request: web.Request,
        response: web.StreamResponse,
        bus: Bus,
        topic: str,
        make_snapshot: Callable[[], Awaitable[Event]],
    ) -> None:
        self._request = request
        self._response = response
        self._bus = bus
        self._topic = topic
        self._make_snapshot = make_snapshot

    async def follow(self, subscription: Subscription) -> None:
        """Send what comes until the server stops or the client is gone."""
        while True:
            try:
                async with asyncio.timeout(KEEPALIVE_S):
                    item = await subscription.subscriber.get()
            except TimeoutError:
                # Also how a client that left is noticed: an idle stream never hears of it.
                await self.send(sse.KEEPALIVE)
                continue
            if item is Signal.CLOSED:
                return
            if item is Signal.SNAPSHOT:
                # Its number first: what happens during the read then comes again.
                number = self._bus.number(self._topic)
                item = Numbered(number, Published(await self._make_snapshot()))
            assert isinstance(item, Numbered)
            await self.send(item.item.wire(self._bus.event_id(item.number)))

    async def send(self, data: bytes) -> None:
        """Write, and cut a client off that takes nothing. Raises ConnectionError, TimeoutError."""
        try:
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await self._response.write(data)
        except TimeoutError:
            if self._request.transport is not None:
                self._request.transport.abort()
            raise
