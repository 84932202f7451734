"""The app without a server, on data from recordings; and its screen as text."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from textual.pilot import Pilot

from cascade_server.contract.models import RunDetail
from cascade_tui.app import CascadeApp
from cascade_tui.screens.base import LiveScreen
from cascade_tui.store import Store
from cascade_tui.widgets.live_table import LiveTable

from .recorded import NOW, Sim, fill, mid_run


def rows(svg: str) -> list[str]:
    """The rows of a screen as text, out of the SVG's text elements."""
    by_line: dict[float, list[tuple[float, str]]] = {}
    for x, y, text in re.findall(r'<text class="[^"]*" x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>', svg):
        by_line.setdefault(float(y), []).append((float(x), html.unescape(text).replace("\xa0", " ")))
    out = []
    for _, parts in sorted(by_line.items()):
        line = ""
        for x, text in sorted(parts):
            line = line.ljust(round(x / 12.2)) + text
        out.append(line.rstrip())
    return out


def text_of(pilot: Pilot[None]) -> str:
    """What the screen shows."""
    return "\n".join(rows(pilot.app.export_screenshot(title="")))


@asynccontextmanager
async def offline(
    runs: Sequence[tuple[RunDetail, Sequence[Sim]]] | None = None, *, size: tuple[int, int] = (120, 40)
) -> AsyncIterator[tuple[Pilot[None], CascadeApp]]:
    """Fly the app on a store that holds the bundled traces and these runs; without them, one in the middle."""
    store = fill(Store(), [mid_run()] if runs is None else runs)
    app = CascadeApp("http://127.0.0.1:8000", store=store, now=lambda: NOW, live=False)
    async with app.run_test(size=size, notifications=True) as pilot:
        await shown(pilot)
        yield pilot, app


async def shown(pilot: Pilot[None]) -> None:
    """Let the screens show the store as it is."""
    for _ in range(2):
        for screen in pilot.app.screen_stack:
            if isinstance(screen, LiveScreen):
                screen.flush_now()
        await pilot.pause()


async def open_run(pilot: Pilot[None], app: CascadeApp, run_id: str) -> None:
    """Open a run and let it show."""
    app.open_run(run_id)
    await pilot.pause()
    await shown(pilot)


def table(app: CascadeApp, selector: str) -> LiveTable:
    """A table of the screen on top."""
    return app.screen.query_one(selector, LiveTable)


def row_keys(app: CascadeApp, selector: str) -> list[str]:
    """The keys of a table's rows, in order."""
    return [str(row.key.value) for row in table(app, selector).ordered_rows]
