"""All runs, newest first."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from cascade_server.contract.models import RunSummary
from cascade_tui import format as fmt
from cascade_tui.keymap import bindings
from cascade_tui.widgets.line import Line
from cascade_tui.widgets.live_table import LiveTable
from cascade_tui.widgets.paint import Variables, joined, paint
from cascade_tui.widgets.pane import Pane

from .base import LiveScreen
from .run_rows import run_columns, run_row


class RunsScreen(LiveScreen):
    """One table, and a line about the run under the cursor."""

    CSS_PATH = "runs.tcss"
    CONTEXT = "runs"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("runs")]
    AUTO_FOCUS = "#runs"

    def __init__(self) -> None:
        super().__init__("runs")
        self._runs = LiveTable(run_columns([]), id="runs")
        self._detail = Line(id="detail")

    def compose_body(self) -> ComposeResult:
        """The table and the line."""
        yield Pane(0, "Runs", self._runs)
        yield self._detail

    def flush(self) -> None:
        """Show the runs."""
        store, variables = self.app.store, self.app.theme_variables
        self._runs.set_columns(run_columns(store.runs))
        self._runs.show([run_row(run, variables, self.app.now()) for run in store.runs])
        pane = self.query_one(Pane)
        pane.title_line.tell(Text(str(len(store.runs)), paint(variables, "text-muted")))
        empty = "No runs yet. Enter on a trace starts one; t goes there." if store.loaded else "Asking the server …"
        pane.say("" if store.runs else empty)
        self._show_chosen()

    def _show_chosen(self) -> None:
        run = next((run for run in self.app.store.runs if run.id == self._runs.chosen), None)
        self._detail.tell(_about(run, self.app.theme_variables) if run else Text())

    @on(LiveTable.Chosen)
    def _chosen(self, event: LiveTable.Chosen) -> None:
        if type(event) is LiveTable.Chosen:
            self._show_chosen()

    @on(LiveTable.Opened)
    def _opened(self, event: LiveTable.Opened) -> None:
        if event.key is not None:
            self.app.open_run(event.key)

    async def action_back(self) -> None:
        """Go back to the traces."""
        await self.app.action_goto("traces")


def _about(run: RunSummary, variables: Variables) -> Text:
    muted = paint(variables, "text-muted")
    facts = [Text(fmt.safe_text(run.id), "bold"), Text(fmt.safe_text(run.trace_id)), Text(fmt.counts_of(run))]
    line = joined(facts, " · ", muted)
    if run.sample:
        line.append("\nsample", paint(variables, "warning", bold=True))
        line.append(": finished results that came with Cascade.")
    if run.notice:
        line.append(f"\n▲ {fmt.safe_text(run.notice)}", paint(variables, "warning"))
    return line
