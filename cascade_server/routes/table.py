"""Registers a handler for every row of the endpoint table."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web

from cascade_server.contract.endpoints import ENDPOINTS
from cascade_server.middleware import Handler, guarded

from . import analysis, docs, events, health, outputs, results, runs, sims, traces

HANDLERS: Mapping[str, Handler] = {
    "health": health.health,
    "traces": traces.traces,
    "trace": traces.trace,
    "gpu_configs": traces.gpu_configs,
    "create_run": runs.create,
    "runs": runs.runs,
    "run": runs.run,
    "cancel_run": runs.cancel,
    "run_kernels": runs.kernels,
    "run_comparison": analysis.comparison,
    "run_accuracy": analysis.accuracy,
    "run_perfetto": analysis.perfetto,
    "run_events": events.run_events,
    "server_events": events.server_events,
    "run_step_timelines": outputs.step_timelines,
    "run_files": outputs.run_files,
    "run_results": results.run_results,
    "sim_results": results.sim_results,
    "sim_kernel": analysis.kernel,
    "sim_log": sims.log,
    "sim_files": outputs.sim_files,
    "sim_file": outputs.sim_file,
    "openapi": docs.openapi,
    "docs": docs.docs,
    "agent_prompt": docs.agent_prompt,
    "agent_skill": docs.agent_skill,
    "llms_txt": docs.llms_txt,
    "llms_full_txt": docs.llms_full_txt,
    "post_step_timeline": outputs.post_step_timeline,
    "put_file": outputs.put_file,
    "heartbeat": sims.heartbeat,
    "post_logs": sims.post_logs,
}


def add_routes(app: web.Application) -> None:
    """Register the whole table."""
    for endpoint in ENDPOINTS.values():
        app.router.add_route(endpoint.method, endpoint.path, guarded(endpoint, HANDLERS[endpoint.name]))
