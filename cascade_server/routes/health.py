"""Whether the server serves."""

from __future__ import annotations

from aiohttp import web

from cascade_server import __version__
from cascade_server.contract.models import Health
from cascade_server.keys import CORE
from cascade_server.middleware import json_response


async def health(request: web.Request) -> web.Response:
    """GET /api/health."""
    core = request.app[CORE]
    return json_response(
        Health(
            auth=core.tokens.main is not None,
            workspace=core.settings.workspace,
            version=__version__,
            replay=not core.settings.uses_accelsim,
        )
    )
