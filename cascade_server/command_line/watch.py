"""`cascade run watch`: bars on a terminal, lines elsewhere, the API's events as JSON for programs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Protocol

import typer
from rich.live import Live

from cascade_server.contract import models as m
from cascade_server.contract.client import CascadeError
from cascade_server.contract.events import SnapshotEvent
from cascade_server.contract.states import RunState

from . import output as out
from .bars import Bars
from .client import Client
from .errors import INTERRUPTED, RUN_FAILED, SUCCEEDED
from .follow import Event, Patience, events
from .progress import Lines, RunView
from .runs import print_run
from .text import harmless

REDRAW_S = 0.25


async def watch_run(client: Client, given: str, as_json: bool, give_up_after_s: float) -> int:
    """Watch a run until it ends; the exit code says how."""
    run_id = await client.run_id(given)
    # A run or server that isn't there is known at once, not after the patience for lost connections.
    run = await client.run(run_id)
    to = out.console()
    on_terminal = to.is_terminal and sys.stdout.isatty() and not to.is_dumb_terminal
    watch = _Json if as_json else _Terminal if on_terminal else _Plain
    try:
        return await watch(run).follow(client, run_id, give_up_after_s)
    except asyncio.CancelledError:
        _say(
            f"stopped watching; {run_id} goes on. Come back with `cascade run watch {run_id}`, "
            f"stop it with `cascade run cancel {run_id}`."
        )
        raise


def _say(text: str) -> None:
    with suppress(OSError):
        typer.echo(f"cascade: {harmless(text)}", err=True)
