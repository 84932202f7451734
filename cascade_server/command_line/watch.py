"""`cascade run watch`: bars on a terminal, lines elsewhere, the API's events as JSON for programs."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing

from cascade_server.contract.client import CascadeError
from cascade_server.contract.events import SnapshotEvent
from cascade_server.contract.models import RunDetail
from cascade_server.contract.states import RunState

from . import output as out
from .bars import Bars
from .client import Client
from .errors import RUN_FAILED, SUCCEEDED
from .follow import Patience, events
from .viewers import Json, Lines, Viewer, say


async def watch_run(client: Client, given: str, as_json: bool, give_up_after_s: float) -> int:
    """Watch a run until it ends; the exit code says how."""
    run_id = await client.run_id(given)
    # A run or server that isn't there is known at once, not after the patience for lost connections.
    run = await client.run(run_id)
    viewer = Json(run) if as_json else _for_people(run)
    try:
        async with viewer:
            await _follow(client, viewer, Patience(give_up_after_s, viewer.say))
    except asyncio.CancelledError:
        say(
            f"stopped watching, but {run_id} goes on: `cascade run watch {run_id}` comes back to it, "
            f"`cascade run cancel {run_id}` ends it."
        )
        raise
    viewer.end()
    return SUCCEEDED if viewer.state is RunState.SUCCEEDED else RUN_FAILED


def _for_people(run: RunDetail) -> Viewer:
    to = out.console()
    return Bars(run, to) if sys.stdout.isatty() and to.is_terminal and not to.is_dumb_terminal else Lines(run)


async def _follow(client: Client, viewer: Viewer, patience: Patience) -> None:
    """Show the run's events until all its sims have ended, and then what may have been missed."""
    async with aclosing(events(client, viewer.run.id, patience)) as stream:  # type: ignore[type-var]
        async for event in stream:
            viewer.take(event)
            if viewer.state is not RunState.ACTIVE:
                break
    while True:
        try:
            # A sim's last state may overtake its last kernels: of its states only the newest is sent.
            viewer.take(await _whole(client, viewer.run.id))
            return
        except CascadeError as error:
            await patience.wait(error)


async def _whole(client: Client, run_id: str) -> SnapshotEvent:
    return SnapshotEvent(run=await client.run(run_id), kernels=await client.run_kernels(run_id))
