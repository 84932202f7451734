"""Waiting for conditions instead of for time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from textual.pilot import Pilot


async def until(pilot: Pilot[None], condition: Callable[[], bool], *, limit_s: float = 20.0) -> None:
    """Let app and server work until a condition holds."""
    async with asyncio.timeout(limit_s):
        while not condition():
            await pilot.pause()
            # Gives the server, which lives in the same loop, its turn.
            await asyncio.sleep(0.005)
    await pilot.pause()
