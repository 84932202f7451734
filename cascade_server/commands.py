"""What `cascade serve`, `up` and `down` do."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import typer
from pydantic import ValidationError

from . import datadir
from .contract.client import CascadeClient, CascadeError
from .contract.states import RunState
from .errors import StartError
from .settings import Settings

START_WAIT_S = 20.0
STOP_WAIT_S = 10.0


def run_server(given: dict[str, Any]) -> int:
    """Serve until told to stop; the exit code."""
    from .server import serve

    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        asyncio.run(serve(_settings(given), lambda url: typer.echo(f"Cascade serves on {url}")))
    except StartError as error:
        typer.echo(f"cascade: {error}", err=True)
        return 1
    return 0


def run_up(given: dict[str, Any]) -> int:
    """Open the terminal app on this machine's server, started if need be; the exit code."""
    try:
        settings = _settings(given)
        running = datadir.running_server(settings.data_dir)
        url = running[0] if running else _start_server(settings, given)
        token = _token(settings)
    except StartError as error:
        typer.echo(f"cascade: {error}", err=True)
        return 1
    (entry,) = entry_points(group="cascade.commands", name="tui")
    run_tui = __import__(entry.module, fromlist=["run_tui"]).run_tui
    code = int(run_tui(url, token))
    if running is None:
        _leave(settings, url, token)
    return code


def run_down(given: dict[str, Any]) -> int:
    """Stop the server of the data folder; the exit code."""
    try:
        settings = _settings(given)
    except StartError as error:
        typer.echo(f"cascade: {error}", err=True)
        return 1
    running = datadir.running_server(settings.data_dir)
    if running is None:
        typer.echo(f"No server runs on {settings.data_dir}.")
        return 0
    return 0 if _stop_server(settings.data_dir, running[1]) else 1


def _settings(given: dict[str, Any]) -> Settings:
    try:
        return Settings(**given)
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_url=False))
        raise StartError(f"These settings can't be used: {wrong}.") from error


def _token(settings: Settings) -> str:
    if settings.no_auth:
        return ""
    return (
        settings.token.get_secret_value()
        if settings.token
        else datadir.kept_secret(datadir.token_path(settings.data_dir))
    )


def _start_server(settings: Settings, given: dict[str, Any]) -> str:
    """Start a server in a session of its own, so that it can outlive the terminal; its URL."""
    environment = dict(os.environ)
    for name, value in given.items():
        environment[f"CASCADE_{name.upper()}"] = str(value)
    if "port" not in given and "CASCADE_PORT" not in os.environ and not _port_free(settings):
        environment["CASCADE_PORT"] = "0"
    settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    log_path = settings.data_dir / "server.log"
    with log_path.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "cascade_server", "serve"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    deadline = time.monotonic() + START_WAIT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise StartError(_last_words(log_path))
        running = datadir.running_server(settings.data_dir)
        if running is not None and running[1] == process.pid:
            # It may outlive us: nobody waits for it.
            process.returncode = 0
            return running[0]
        time.sleep(0.05)
    process.kill()
    process.wait()
    raise StartError(f"The server did not start within {START_WAIT_S:.0f} s; {log_path} may say why.")


def _port_free(settings: Settings) -> bool:
    with contextlib.closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError:
            return False
    return True


def _last_words(log_path: Path) -> str:
    lines = log_path.read_text("utf-8", "replace").strip().splitlines()
    return lines[-1].removeprefix("cascade: ") if lines else f"The server did not start; {log_path} is empty."


def _leave(settings: Settings, url: str, token: str) -> None:
    unfinished = asyncio.run(_unfinished(url, token))
    if unfinished:
        typer.echo(
            f"{unfinished} sims go on, and the server with them: {url}\n"
            "Come back with `cascade up`; stop the server with `cascade down`."
        )
        return
    running = datadir.running_server(settings.data_dir)
    if running is not None:
        _stop_server(settings.data_dir, running[1])


async def _unfinished(url: str, token: str) -> int:
    try:
        async with CascadeClient(url, token) as client:
            runs = await client.runs()
    except CascadeError:
        return 0
    active = [run for run in runs if run.state is RunState.ACTIVE and not run.sample]
    return sum(n for run in active for state, n in run.sim_counts.items() if not state.is_finished)


def _stop_server(data_dir: Path, pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_WAIT_S
    while time.monotonic() < deadline:
        if datadir.running_server(data_dir) is None:
            typer.echo("The server has stopped.")
            return True
        time.sleep(0.05)
    typer.echo(f"cascade: the server (process {pid}) does not stop.", err=True)
    return False
