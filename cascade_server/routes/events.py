"""The event stream of a run."""

from __future__ import annotations

import asyncio
import contextlib

from aiohttp import web

from cascade_server.contract import sse
from cascade_server.contract.client import KEEPALIVE_S
from cascade_server.keys import CORE
from cascade_server.services.bus import Published, Signal, Subscriber
from cascade_server.services.core import Core

SEND_TIMEOUT_S = 45.0
"""A client that takes nothing for so long is cut off; it comes back and gets a snapshot."""


async def run_events(request: web.Request) -> web.StreamResponse:
    """GET /api/runs/{run_id}/events."""
    core = request.app[CORE]
    run_id = request.match_info["run_id"]
    # Subscribe first: what happens while the snapshot is read then comes twice rather than never, and every event
    # can be taken twice (a sim's newest state, a kernel by its index, log lines by their number).
    with core.bus.subscribe(run_id) as subscriber:
        snapshot = await core.runs.snapshot(run_id)
        response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream; charset=utf-8",
                "Cache-Control": "no-cache",
                "X-Accel-Buffering": "no",
            }
        )
        await response.prepare(request)
        with contextlib.suppress(ConnectionError, TimeoutError):
            await _send(request, response, Published(snapshot).wire)
            await _follow(request, response, core, run_id, subscriber)
    return response


async def _follow(
    request: web.Request, response: web.StreamResponse, core: Core, run_id: str, subscriber: Subscriber
) -> None:
    while True:
        try:
            async with asyncio.timeout(KEEPALIVE_S):
                item = await subscriber.get()
        except TimeoutError:
            # Also how a client that left is noticed: an idle stream never hears of it.
            await _send(request, response, sse.KEEPALIVE)
            continue
        if item is Signal.CLOSED:
            return
        if item is Signal.SNAPSHOT:
            item = Published(await core.runs.snapshot(run_id))
        assert isinstance(item, Published)
        await _send(request, response, item.wire)


async def _send(request: web.Request, response: web.StreamResponse, data: bytes) -> None:
    try:
        async with asyncio.timeout(SEND_TIMEOUT_S):
            await response.write(data)
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
        raise
