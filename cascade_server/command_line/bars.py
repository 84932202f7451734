"""What `watch` shows on a terminal: a bar for each sim, redrawn four times a second."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from cascade_server.contract.models import RunDetail, SimSummary
from cascade_server.contract.states import FINISHED, SimState

from . import output as out
from .output import GAP, Column
from .runs import print_run
from .text import MISSING, counts_of, duration, elapsed_of, harmless, kernels_of, plural, short_name
from .viewers import Viewer

REDRAW_S = 0.25
WIDEST_BAR = 30
BAR = 3
_ORDER = [SimState.RUNNING, SimState.LOST, SimState.LAUNCHING, SimState.PENDING, *SimState]

COLUMNS = (
    Column("state"),
    Column("config", least=8),
    Column("#"),
    Column("bar", least=6, drop=2),
    Column("kernels"),
    Column("time", right=True, drop=3),
    Column("kernel", least=12, drop=4),
)


class Bars(Viewer):
    """Shows the run live; when it has ended the display gives way to the run's table."""

    def __init__(self, run: RunDetail, to: Console) -> None:
        super().__init__(run)
        self._to = to
        self._said = ""
        self._live = Live(console=to, get_renderable=self.render, auto_refresh=False)
        self._redrawing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._live.start()
        self._redrawing = asyncio.create_task(self._redraw())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if self._redrawing is not None:
            self._redrawing.cancel()
            with suppress(asyncio.CancelledError):
                await self._redrawing
        # Who stops watching keeps the last picture.
        self._live.transient = kind is None
        self._live.stop()

    def say(self, text: str) -> None:
        """Show it among the bars: the terminal is theirs."""
        self._said = "" if text == "connected again" else text

    def end(self) -> None:
        """Print the run as `run show` does."""
        print_run(self._to, self.run)

    async def _redraw(self) -> None:
        while True:
            self._live.refresh()
            await asyncio.sleep(REDRAW_S)

    def render(self) -> RenderableType:
        """The whole picture, no larger than the terminal."""
        parts: list[RenderableType] = []
        if self.run.notice:
            parts.append(Text(f"! {harmless(self.run.notice)}", style="bold yellow"))
        parts.append(Text(f"{self.run.id} of {harmless(self.run.trace_id)}: {counts_of(self.counts)}"))
        if self._said:
            parts.append(Text(harmless(self._said), style="yellow"))
        taken = sum(len(part.wrap(self._to, self._to.width)) for part in parts if isinstance(part, Text))
        sims = sorted(self.sims.values(), key=lambda sim: _ORDER.index(sim.state))
        room = max(1, self._to.height - taken - 2)
        shown = sims if len(sims) <= room else sims[: max(1, room - 1)]
        parts.append(self._table(shown))
        if len(shown) < len(sims):
            parts.append(Text(f"and {plural(len(sims) - len(shown), 'more sim')}", style="dim"))
        return Group(*parts)

    def _table(self, sims: list[SimSummary]) -> Table:
        now = datetime.now(UTC)
        rows = [_cells(sim, now) for sim in sims]
        natural = [max((row[at].cell_len for row in rows), default=0) for at in range(len(COLUMNS))]
        natural[BAR] = WIDEST_BAR
        shown, widths = out.fit(COLUMNS, natural, self._to.width)
        grid = Table.grid(padding=(0, GAP, 0, 0), pad_edge=False)
        for at in shown:
            right = COLUMNS[at].right
            grid.add_column(width=widths.get(at), no_wrap=True, justify="right" if right else "left")
        for sim, row in zip(sims, rows, strict=True):
            cells: list[RenderableType] = [*row]
            cells[BAR] = ProgressBar(total=1.0, completed=_done(sim), width=widths.get(BAR, WIDEST_BAR))
            grid.add_row(*(cells[at] for at in shown))
        return grid


def _cells(sim: SimSummary, now: datetime) -> list[Text]:
    current = "" if sim.state in FINISHED or not sim.current_kernel else short_name(sim.current_kernel)
    if sim.error:
        current = sim.error
    return [
        out.state(sim.state),
        Text(harmless(sim.gpu_config)),
        Text(f"#{sim.replica}"),
        Text(""),
        Text(kernels_of(sim)),
        Text(duration(elapsed_of(sim, now)) if sim.started_at else MISSING),
        Text(harmless(current), style="dim"),
    ]


def _done(sim: SimSummary) -> float:
    """The share of the trace that is done, with the part of the running kernel whose blocks were issued."""
    if sim.state is SimState.SUCCEEDED:
        return 1.0
    if not sim.kernels_total:
        return 0.0
    running = 0.0
    if sim.state not in FINISHED and sim.blocks_issued and sim.blocks_total:
        running = min(1.0, sim.blocks_issued / sim.blocks_total)
    return min(1.0, (sim.kernels_done + running) / sim.kernels_total)
