"""One run: its sims live, the log of the chosen one, simulated time per kernel and config."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal

from cascade_server.contract.client import CascadeError
from cascade_server.contract.models import RunDetail, SimSummary
from cascade_server.contract.states import RunState
from cascade_tui import format as fmt
from cascade_tui.keymap import bindings
from cascade_tui.store import RunData
from cascade_tui.widgets.chart import ChartData, KernelChart
from cascade_tui.widgets.line import Line
from cascade_tui.widgets.live_table import LiveTable
from cascade_tui.widgets.log_view import LogView
from cascade_tui.widgets.paint import paint
from cascade_tui.widgets.pane import Pane

from .base import PanedScreen
from .confirm import Confirm
from .sim_rows import about_sim, headline, notice_of, sim_columns, sim_row


class RunScreen(PanedScreen):
    """Sims on top; log and chart below."""

    CSS_PATH = "run.tcss"
    CONTEXT = "run"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("run")]
    AUTO_FOCUS = "#sims"
    TICK_S = 1.0

    def __init__(self, run_id: str) -> None:
        super().__init__("runs", run_id)
        self.run_id = run_id
        self._headline = Line(id="headline")
        self._notice = Line(id="notice")
        self._sims = LiveTable(sim_columns([]), id="sims")
        self._detail = Line(id="detail")
        self._log = LogView(id="log")
        self._chart = KernelChart(id="chart")
        self._charted = -1
        self._state: RunState | None = None

    def compose_body(self) -> ComposeResult:
        """The panes."""
        siblings = ((2, "Log"), (3, "Chart"))
        yield self._headline
        yield self._notice
        yield Pane(1, "Sims", self._sims)
        yield self._detail
        with Horizontal(id="lower"):
            yield Pane(2, "Log", self._log, siblings)
            yield Pane(3, "Chart", self._chart, siblings)

    def on_mount(self) -> None:
        """Follow the run."""
        self.watch(self._log, "following", self._show_log_title, init=False)
        self.app.sync.watch(self.run_id)
        super().on_mount()

    def on_unmount(self) -> None:
        """Follow it no longer."""
        self.app.sync.unwatch(self.run_id)

    @property
    def data(self) -> RunData:
        """What the store has of this run."""
        return self.app.store.run(self.run_id)

    @property
    def sim(self) -> SimSummary | None:
        """The sim under the cursor."""
        chosen = self._sims.chosen
        return self.data.sim(chosen) if chosen is not None else None

    # -- showing -----------------------------------------------------------------------------

    def flush(self) -> None:
        """Show the run as the store has it."""
        data, variables, now = self.data, self.app.theme_variables, self.app.now()
        if data.missing or data.detail is None:
            self._show_nothing(data)
            return
        sims = data.sims
        self._headline.tell(headline(data.detail, sims, now, variables, self.size.width))
        self._notice.tell(notice_of(data.detail, sims))
        self._notice.set_class(any(sim.stand_in for sim in sims), "-loud")
        self._sims.set_columns(sim_columns(sims))
        totals = data.totals_ns()
        self._sims.show([sim_row(sim, totals.get(sim.id), now, variables) for sim in sims])
        self.pane(1).say("")
        self.pane(1).title_line.tell(Text(str(len(sims)), paint(variables, "text-muted")))
        self._show_sim()
        self._show_chart(data, data.detail)
        if data.detail.state is not self._state:
            self._state = data.detail.state
            self.refresh_bindings()

    def _show_nothing(self, data: RunData) -> None:
        self._headline.tell("")
        text = fmt.safe_text(data.missing) or f"Asking the server for {fmt.safe_text(self.run_id)} …"
        self.pane(1).say(text)

    def _show_sim(self) -> None:
        sim, variables = self.sim, self.app.theme_variables
        self._detail.tell(about_sim(sim, self.app.now(), variables) if sim else Text())
        self._log.show(self.data.log(sim.id) if sim else None)
        self.pane(2).say("No line yet." if sim and not len(self.data.log(sim.id)) else "")
        self._show_log_title()

    def _show_log_title(self) -> None:
        sim, variables = self.sim, self.app.theme_variables
        left = Text(f"{fmt.safe_text(sim.gpu_config)} #{sim.replica}" if sim else "", paint(variables, "text-muted"))
        if self._log.following:
            right = Text("following ↓", paint(variables, "text-muted"))
        elif self._log.new_lines:
            count = fmt.plural(self._log.new_lines, "new line")
            right = Text(f" ↓ {count} · G ", paint(variables, "background", bold=True))
            right.stylize(f"on {paint(variables, 'warning').color.name}")  # type: ignore[union-attr]
        else:
            right = Text("stopped · G follows", paint(variables, "warning"))
        self.pane(2).title_line.tell(left, right)

    def _show_chart(self, data: RunData, detail: RunDetail) -> None:
        variables = self.app.theme_variables
        if data.version != self._charted:
            self._charted = data.version
            times = data.times_ns()
            # A stand-in ends when its recording does, whatever the trace has.
            expected = max((sim.kernels_total for sim in data.sims if not sim.stand_in), default=0)
            marked = frozenset(sim.gpu_config for sim in data.sims if sim.stand_in)
            self._chart.show(ChartData(times, marked, expected))
        replicas = any(entry.count > 1 for entry in detail.entries)
        notes = ["log scale"] * self._chart.log_scale + ["median of replicas"] * replicas
        muted = paint(variables, "text-muted")
        title = Text("simulated time per kernel", muted)
        self.pane(3).title_line.tell(title, Text(", ".join(notes), muted))

    @on(LiveTable.Chosen, "#sims")
    def _sim_chosen(self, event: LiveTable.Chosen) -> None:
        if type(event) is LiveTable.Chosen and event.key is not None:
            self.app.sync.show_log(self.run_id, event.key)
            self._show_sim()

    @on(LiveTable.Opened, "#sims")
    def _sim_opened(self) -> None:
        self.action_pane(2)

    # -- keys --------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey out what can't be done."""
        if action == "cancel":
            detail = self.data.detail
            return True if detail is not None and detail.state is RunState.ACTIVE else None
        return True

    def action_cancel(self) -> None:
        """Ask, then cancel."""
        detail = self.data.detail
        if detail is None:
            return
        unfinished = sum(n for state, n in detail.sim_counts.items() if not state.is_finished)
        finished = sum(detail.sim_counts.values()) - unfinished
        keep = f" {fmt.plural(finished, 'finished sim')} keep{'s' if finished == 1 else ''} what was found."
        text = f"{fmt.plural(unfinished, 'sim')} of {self.run_id} will stop.{keep if finished else ''}"
        self.app.show(Confirm("Cancel this run?", text, yes="Cancel the run", no="Keep it"), self._cancel)

    def _cancel(self, sure: bool | None) -> None:
        if sure:
            self.run_worker(self._send_cancel(), group="cancel", exclusive=True, exit_on_error=False)

    async def _send_cancel(self) -> None:
        try:
            await self.app.sync.cancel(self.run_id)
        except CascadeError as error:
            self.app.tell_error(str(error))

    def action_toggle_scale(self) -> None:
        """Change the chart's scale."""
        self._chart.toggle_scale()
        self.request_flush()

    async def action_show_trace(self) -> None:
        """Go to the run's trace."""
        if self.data.detail is not None:
            await self.app.show_trace(self.data.detail.trace_id)

    def action_back(self) -> None:
        """Give panes their room back, else leave the screen."""
        if not self.unzoom():
            self.app.leave_screen()
