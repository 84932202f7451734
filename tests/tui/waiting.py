"""Waiting for conditions instead of for time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from textual.pilot import Pilot

from cascade_tui.app import CascadeApp


def app_of(pilot: Pilot[None]) -> CascadeApp:
    """The app that a pilot flies."""
    app = pilot.app
    assert isinstance(app, CascadeApp)
    return app


async def until(pilot: Pilot[None], condition: Callable[[], bool], *, limit_s: float = 20.0) -> None:
    """Let app and server, which share the loop, work until a condition holds."""
    async with asyncio.timeout(limit_s):
        while not condition():
            await pilot.pause()
            # A turn for sockets: `pause` waits for messages only.
            await asyncio.sleep(0.002)
    await pilot.pause()
