"""Traces and GPU configs."""

from __future__ import annotations

from aiohttp import web

from cascade_server.contract.models import GpuConfig, TraceSummary
from cascade_server.keys import CORE
from cascade_server.middleware import json_response


async def traces(request: web.Request) -> web.Response:
    """GET /api/traces."""
    return json_response(await request.app[CORE].registry.all(), list[TraceSummary])


async def trace(request: web.Request) -> web.Response:
    """GET /api/traces/{trace_id}."""
    return json_response(await request.app[CORE].registry.get(request.match_info["trace_id"]))


async def gpu_configs(request: web.Request) -> web.Response:
    """GET /api/gpu-configs."""
    configs = request.app[CORE].configs
    return json_response([configs[name] for name in sorted(configs)], list[GpuConfig])
