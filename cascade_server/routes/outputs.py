"""Output files and step timelines."""

from __future__ import annotations

from aiohttp import web

from cascade_server.contract.models import RunFile, SimFile, SimStepTimeline, StepTimelineBody
from cascade_server.keys import CORE
from cascade_server.middleware import json_response, read_body


async def run_files(request: web.Request) -> web.Response:
    """GET /api/runs/{run_id}/files."""
    return json_response(await request.app[CORE].outputs.of_run(request.match_info["run_id"]), list[RunFile])


async def sim_files(request: web.Request) -> web.Response:
    """GET /api/sims/{sim_id}/files."""
    return json_response(await request.app[CORE].outputs.of_sim(request.match_info["sim_id"]), list[SimFile])


async def sim_file(request: web.Request) -> web.StreamResponse:
    """GET /api/sims/{sim_id}/files/{name}; aiohttp adds ETag, Last-Modified and ranges."""
    file, path = await request.app[CORE].outputs.get(request.match_info["sim_id"], request.match_info["name"])
    return web.FileResponse(
        path,
        headers={
            "Content-Type": file.content_type,
            # The name is plain by the pattern it was stored under.
            "Content-Disposition": f'attachment; filename="{file.name}"',
        },
    )


async def put_file(request: web.Request) -> web.Response:
    """PUT /api/sims/{sim_id}/files/{name}."""
    stored = await request.app[CORE].outputs.put(
        request.match_info["sim_id"], request.match_info["name"], request.content.iter_any()
    )
    return json_response(stored)


async def step_timelines(request: web.Request) -> web.Response:
    """GET /api/runs/{run_id}/step-timelines."""
    found = await request.app[CORE].outputs.timelines(request.match_info["run_id"])
    return json_response(found, list[SimStepTimeline])


async def post_step_timeline(request: web.Request) -> web.Response:
    """POST /api/sims/{sim_id}/step-timeline."""
    body = await read_body(request, StepTimelineBody)
    await request.app[CORE].outputs.put_timeline(request.match_info["sim_id"], body)
    return web.Response(status=204)
