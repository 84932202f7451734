"""Results, streamed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from aiohttp import web

from cascade_server.contract.models import SimSummary
from cascade_server.keys import CORE
from cascade_server.services import results

from .respond import attachment, encoded, stream


async def run_results(request: web.Request) -> web.StreamResponse:
    """GET /api/runs/{run_id}/results."""
    core = request.app[CORE]
    run = await core.runs.get(request.match_info["run_id"])
    pieces = results.run_results(
        core.db,
        run,
        await core.runs.trace_of(run.trace_id),
        {sim.gpu_config: core.runs.config(sim.gpu_config) for sim in run.sims},
        await core.analysis.comparison(run.id),
    )
    headers = {"Content-Type": "application/json", **attachment(f"{run.id}-results.json")}
    tag = f"{run.id}-{version(run.sims)}-{run.trace.updated_at.timestamp():.6f}"
    return await stream(request, encoded(pieces), tag=tag, headers=headers)


async def sim_results(request: web.Request) -> web.StreamResponse:
    """GET /api/sims/{sim_id}/results."""
    core = request.app[CORE]
    sim = await core.runs.sim(request.match_info["sim_id"])
    run = await core.runs.get(sim.run_id)
    pieces = results.sim_results(core.db, sim, run.trace_id, core.runs.config(sim.gpu_config))
    headers = {"Content-Type": "application/json", **attachment(f"{sim.id}-results.json")}
    return await stream(request, encoded(pieces), tag=f"{sim.id}-{version([sim])}", headers=headers)


def version(sims: Iterable[SimSummary]) -> str:
    """Changes whenever anything of these sims did."""
    text = "".join(sim.model_dump_json() for sim in sims)
    return hashlib.sha256(text.encode()).hexdigest()[:24]
