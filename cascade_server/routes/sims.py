"""A sim's log, and what its worker sends."""

from __future__ import annotations

from aiohttp import web

from cascade_server.contract.client import FIRST_LINE_HEADER
from cascade_server.contract.models import Heartbeat, HeartbeatReply, LogReply
from cascade_server.errors import InvalidError
from cascade_server.keys import CORE
from cascade_server.middleware import json_response, read_body, read_log_chunk

from .respond import attachment, stream


async def log(request: web.Request) -> web.StreamResponse:
    """GET /api/sims/{sim_id}/log, streamed."""
    core = request.app[CORE]
    sim = await core.runs.sim(request.match_info["sim_id"])
    end = sim.log_lines
    first = 0
    if (tail := request.query.get("tail")) is not None:
        # isdecimal alone would let other scripts' digits and 5,000-digit numbers through to int().
        if not (tail.isascii() and tail.isdecimal() and len(tail) <= 18):
            raise InvalidError(f"tail must be a whole number of at least 0, not {tail[:40]!r}.")
        first = max(0, end - int(tail))
    headers = {
        "Content-Type": "text/plain; charset=utf-8",
        FIRST_LINE_HEADER: str(first),
        **attachment(f"{sim.id}.log"),
    }
    # Lines are only ever added: their number tells one state of the log from another.
    tag = f"{sim.id}-{first}-{end}"
    return await stream(request, core.runs.log(sim.id, first, end), tag=tag, headers=headers)


async def heartbeat(request: web.Request) -> web.Response:
    """POST /api/sims/{sim_id}/heartbeat."""
    core = request.app[CORE]
    beat = await read_body(request, Heartbeat)
    return json_response(HeartbeatReply(cancel=await core.lifecycle.heartbeat(request.match_info["sim_id"], beat)))


async def post_logs(request: web.Request) -> web.Response:
    """POST /api/sims/{sim_id}/logs."""
    core = request.app[CORE]
    chunk = await read_log_chunk(request)
    return json_response(LogReply(next_seq=await core.ingest.add(request.match_info["sim_id"], chunk)))
