"""The application: what is set up in which order, and taken down in reverse."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import datetime
from typing import Any

from aiohttp import web

from . import datadir
from .db.connection import open_database
from .errors import StartError
from .keys import CORE
from .launchers import make_launcher
from .middleware import json_errors
from .routes.respond import conditional
from .routes.table import add_routes
from .services.core import Core, Tokens, make_core, random_id, utc_now
from .services.dispatch import SimTokens
from .services.seed import seed_sample_run
from .settings import Settings

log = logging.getLogger(__name__)

MAX_BODY_BYTES = 64 << 20
"""Of a request; a log chunk may hold a line of megabytes, escaped sixfold."""


def make_app(
    settings: Settings,
    *,
    now: Callable[[], datetime] = utc_now,
    monotonic: Callable[[], float] = time.monotonic,
    new_id: Callable[[str], str] = random_id,
) -> web.Application:
    """Build the application; clocks and ids may be given for tests.

    Its start-up raises StartError with a sentence for the person who started it.
    """
    check_settings(settings)
    app = web.Application(middlewares=[json_errors, conditional], client_max_size=MAX_BODY_BYTES)
    add_routes(app)

    async def core_context(app: web.Application) -> AsyncIterator[None]:
        with datadir.locked(settings.data_dir):
            tokens = _tokens(settings)
            settings.traces_dir.mkdir(parents=True, exist_ok=True)
            async with open_database(settings.data_dir / "cascade.db") as db:
                app[CORE] = core = make_core(
                    settings, db, make_launcher(settings), tokens, now=now, monotonic=monotonic, new_id=new_id
                )
                await core.registry.scan()
                async with _background([core.registry.run(), _seed(core)]):
                    yield

    async def end_streams(app: web.Application) -> None:
        # Before anything else: an open stream would hold the shutdown up.
        app[CORE].bus.close()

    app.cleanup_ctx.append(core_context)
    app.on_shutdown.append(end_streams)
    return app


def check_settings(settings: Settings) -> None:
    """Refuse settings that can't work. Raises StartError."""
    if settings.listens_beyond_loopback and settings.no_auth:
        raise StartError(
            f"Refusing to listen on {settings.host} without a token check: anyone could run simulations here. "
            "Unset CASCADE_NO_AUTH, or listen on 127.0.0.1."
        )
    if settings.traces is not None and "://" in settings.traces:
        raise StartError(f"CASCADE_TRACES={settings.traces} is no folder; buckets can't be read yet.")
    if settings.simulator == "accelsim" and settings.accelsim_dir is None:
        raise StartError("CASCADE_SIMULATOR=accelsim needs CASCADE_ACCELSIM_DIR, Accel-Sim's checkout.")
    if settings.accelsim_dir is not None and not (settings.accelsim_dir / "gpu-simulator").is_dir():
        raise StartError(f"CASCADE_ACCELSIM_DIR={settings.accelsim_dir} holds no folder gpu-simulator.")
    if settings.replay_log is not None and not settings.replay_log.is_file():
        raise StartError(f"CASCADE_REPLAY_LOG={settings.replay_log} is no file.")


def _tokens(settings: Settings) -> Tokens:
    secret = datadir.kept_secret(settings.data_dir / "secret")
    main = None
    if not settings.no_auth:
        given = settings.token.get_secret_value() if settings.token else ""
        main = given or datadir.kept_secret(datadir.token_path(settings.data_dir))
    return Tokens(main=main, sims=SimTokens(secret.encode()))


async def _seed(core: Core) -> None:
    try:
        await seed_sample_run(core)
    except Exception:
        # The sample is a courtesy: without it everything else still works.
        log.exception("making the sample run failed")


@contextlib.asynccontextmanager
async def _background(jobs: list[Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(job) for job in jobs]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
