"""Runs the application until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
from collections.abc import Callable

from aiohttp import web

from . import datadir
from .app import make_app
from .errors import StartError
from .keys import CORE
from .settings import Settings

SHUTDOWN_S = 3.0
"""How long open requests may take to end."""


async def serve(settings: Settings, ready: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; `ready` is called with the URL once requests are answered.

    Running sims go on: their workers keep what they have until a server is back. Raises StartError.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    runner = web.AppRunner(make_app(settings), access_log=None, shutdown_timeout=SHUTDOWN_S)
    try:
        await runner.setup()
        url = await _listen(runner, settings)
        core = runner.app[CORE]
        datadir.write_server_file(settings.data_dir, url)
        # Only now: workers call back at once.
        launching = asyncio.create_task(core.dispatcher.run(settings.public_url or url))
        try:
            ready(url)
            await stop.wait()
        finally:
            launching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await launching
    finally:
        await runner.cleanup()


async def _listen(runner: web.AppRunner, settings: Settings) -> str:
    site = web.TCPSite(runner, settings.host, settings.port)
    try:
        await site.start()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise StartError(
                f"Port {settings.port} on {settings.host} is taken; choose another with --port or CASCADE_PORT."
            ) from error
        raise StartError(f"Can't listen on {settings.host}:{settings.port}: {error.strerror}.") from error
    port = runner.addresses[0][1]
    # What workers and people on this machine call; 0.0.0.0 is no address to call.
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "::1": "[::1]"}.get(settings.host, settings.host)  # noqa: S104
    return f"http://{host}:{port}"
