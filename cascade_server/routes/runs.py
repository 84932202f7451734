"""Runs: make, list, read, cancel."""

from __future__ import annotations

from aiohttp import web

from cascade_server.contract.models import KernelStat, RunCreate, RunSummary
from cascade_server.keys import CORE
from cascade_server.middleware import json_response, read_body


async def create(request: web.Request) -> web.Response:
    """POST /api/runs."""
    core = request.app[CORE]
    run = await core.runs.create(await read_body(request, RunCreate))
    core.dispatcher.wake()
    return json_response(run, status=201)


async def runs(request: web.Request) -> web.Response:
    """GET /api/runs."""
    return json_response(await request.app[CORE].runs.all(), list[RunSummary])


async def run(request: web.Request) -> web.Response:
    """GET /api/runs/{run_id}."""
    return json_response(await request.app[CORE].runs.get(request.match_info["run_id"]))


async def cancel(request: web.Request) -> web.Response:
    """POST /api/runs/{run_id}/cancel."""
    core = request.app[CORE]
    run_id = request.match_info["run_id"]
    core.dispatcher.stop_workers(await core.lifecycle.cancel_run(run_id))
    return json_response(await core.runs.get(run_id))


async def kernels(request: web.Request) -> web.Response:
    """GET /api/runs/{run_id}/kernels."""
    return json_response(await request.app[CORE].runs.kernels(request.match_info["run_id"]), list[KernelStat])
