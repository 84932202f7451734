"""What a run's kernels say, compared, assessed, drawn and counted."""

from __future__ import annotations

from aiohttp import web

from cascade_server.errors import NotFoundError
from cascade_server.keys import CORE
from cascade_server.middleware import json_response

from .respond import attachment, encoded, stream
from .results import version


async def comparison(request: web.Request) -> web.Response:
    """GET /api/runs/{run_id}/comparison."""
    return json_response(await request.app[CORE].analysis.comparison(request.match_info["run_id"]))


async def accuracy(request: web.Request) -> web.Response:
    """GET /api/runs/{run_id}/accuracy."""
    return json_response(await request.app[CORE].analysis.accuracy(request.match_info["run_id"]))


async def perfetto(request: web.Request) -> web.StreamResponse:
    """GET /api/runs/{run_id}/perfetto, streamed."""
    core = request.app[CORE]
    run = await core.runs.get(request.match_info["run_id"])
    headers = {"Content-Type": "application/json", **attachment(f"{run.id}-perfetto.json")}
    pieces = encoded(core.analysis.perfetto(run))
    return await stream(request, pieces, tag=f"{run.id}-perfetto-{version(run.sims)}", headers=headers)


async def kernel(request: web.Request) -> web.Response:
    """GET /api/sims/{sim_id}/kernels/{kernel_index}."""
    sim_id, index = request.match_info["sim_id"], request.match_info["kernel_index"]
    # isdecimal alone would let other scripts' digits and 5,000-digit numbers through to int().
    if not (index.isascii() and index.isdecimal() and len(index) <= 18):
        await request.app[CORE].runs.sim(sim_id)
        raise NotFoundError(f"Sim {sim_id} has not finished a kernel {index[:40]!r}.")
    return json_response(await request.app[CORE].analysis.kernel(sim_id, int(index)))
