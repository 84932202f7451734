"""New run: which configs, how many sims of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widgets import Static

from cascade_server.contract.client import CascadeError, Unreachable
from cascade_server.contract.models import MAX_ENTRY_COUNT, GpuConfig, RunCreate, RunEntry, TraceSummary
from cascade_tui import format as fmt
from cascade_tui.keymap import bindings
from cascade_tui.store import latest_of
from cascade_tui.widgets.key_bar import KeyBar
from cascade_tui.widgets.line import Line
from cascade_tui.widgets.live_table import Column, LiveTable, Row
from cascade_tui.widgets.paint import joined, paint

from .base import Dialog, dialog_bindings
from .confirm import Confirm

ASK_ABOVE = 4
"""More sims than this are launched only after one more question."""

COLUMNS = (
    Column("taken", "", 3),
    Column("config", "config", 14, grow=1, most=28),
    Column("count", "sims", 7, align="right"),
    Column("arch", "arch", 6, priority=2),
    Column("clock", "core clock", 10, priority=3, align="right"),
    Column("note", "", 10, priority=1, grow=3),
)


class _ConfigTable(LiveTable, inherit_bindings=False):
    """Leaves Enter to the dialog."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("dialog_table")]
    CONTEXT = "dialog_table"


def preselected(trace: TraceSummary, configs: Sequence[GpuConfig]) -> dict[str, int]:
    """Configs to begin with, one sim each: the samples' for the demo, else the suggested one, else the only one."""
    fitting = [config.name for config in configs if config.arch == trace.trace_gpu_arch]
    wanted = trace.sample_sim_configs if trace.demo else [trace.suggested_sim_config or ""]
    chosen = [name for name in fitting if name in wanted]
    if not chosen and len(fitting) == 1:
        chosen = fitting
    return dict.fromkeys(chosen, 1)


class NewRunScreen(Dialog[str]):
    """Gives the id of the run that was launched, or that a sample already has."""

    CSS_PATH = "dialogs.tcss"
    CONTEXT = "new_run"
    BINDINGS: ClassVar[list[BindingType]] = dialog_bindings("new_run")
    AUTO_FOCUS = "#configs"

    def __init__(self, trace: TraceSummary) -> None:
        super().__init__()
        self._trace = trace
        self._counts: dict[str, int] = {}
        self._touched = False
        self._launching = False
        self._table = _ConfigTable(COLUMNS, id="configs")
        self._folded = Line(classes="dialog-note")
        self._total = Line(classes="dialog-total")
        self._error = Line(classes="dialog-error")

    def compose(self) -> ComposeResult:
        """The list of configs, the total, the server's answer."""
        with Vertical(classes="dialog -new-run"):
            yield Static(f"New run of {fmt.safe_text(self._trace.id)}", markup=False, classes="dialog-title")
            if self._trace.sample:
                yield Static(self._why_not(), markup=False, classes="dialog-text")
            else:
                yield self._table
                yield self._folded
                yield self._total
            yield self._error
        yield KeyBar()

    def on_mount(self) -> None:
        """Choose what is suggested."""
        self._fill()

    def request_flush(self) -> None:
        """Take configs that come late."""
        if self.is_mounted:
            self._fill()

    # -- showing -----------------------------------------------------------------------------

    @property
    def _configs(self) -> list[GpuConfig]:
        return self.app.store.configs or []

    def _fits(self, name: str | None) -> bool:
        return any(c.name == name and c.arch == self._trace.trace_gpu_arch for c in self._configs)

    def _fill(self) -> None:
        if self._trace.sample:
            return
        if not self._touched:
            self._counts = preselected(self._trace, self._configs)
        fitting = [c for c in self._configs if c.arch == self._trace.trace_gpu_arch]
        others = [c for c in self._configs if c.arch != self._trace.trace_gpu_arch]
        self._table.show([self._row(config) for config in (*fitting, *others)])
        self._table.display = bool(self._configs)
        muted = paint(self.app.theme_variables, "text-muted")
        if self.app.store.configs is None:
            note = "Asking the server for its configs …"
        elif not fitting:
            note = f"No config here is of the trace's arch, {self._trace.trace_gpu_arch}."
        else:
            note = ""
        self._folded.tell(Text(fmt.safe_text(note), muted))
        self._tell_total()

    def _row(self, config: GpuConfig) -> Row:
        variables = self.app.theme_variables
        muted, track = paint(variables, "text-muted"), paint(variables, "text-muted", dim=True)
        fits = config.arch == self._trace.trace_gpu_arch
        count = self._counts.get(config.name, 0)
        if not fits:
            note = Text(fmt.safe_text(f"trace is {self._trace.trace_gpu_arch}"), track)
            taken, number = Text("  –", track), Text()
        else:
            note = Text(self._note(config.name), muted)
            taken = Text("[✓]" if count else "[ ]", paint(variables, "success", bold=True) if count else muted)
            number = Text(f"‹ {count} ›" if count else fmt.MISSING, "bold" if count else muted)
        return Row(
            config.name,
            {
                "taken": taken,
                "config": Text(fmt.safe_text(config.name), "bold" if count else "" if fits else track),
                "count": number,
                "arch": Text(fmt.safe_text(config.arch), muted if fits else track),
                "clock": Text(f"{config.core_clock_mhz:,.0f} MHz", muted if fits else track),
                "note": note,
            },
        )

    def _note(self, name: str) -> str:
        if name == self._trace.suggested_sim_config:
            return "suggested"
        return "recorded" if self._trace.demo and name in self._trace.sample_sim_configs else ""

    def _tell_total(self) -> None:
        variables = self.app.theme_variables
        sims = sum(self._counts.values())
        parts = [Text(fmt.plural(len(self._counts), "config")), Text(fmt.plural(sims, "sim"), "bold")]
        if not sims:
            parts = [Text("Take at least one config: Space.", paint(variables, "warning"))]
        elif self.app.store.health is not None and self.app.store.health.replay:
            parts.append(Text("replayed from recordings: no Accel-Sim is set up", paint(variables, "text-muted")))
        self._total.tell(joined(parts, " · ", paint(variables, "text-muted")))

    def _why_not(self) -> Text:
        text = Text("This is a sample: it has finished results only, no instruction traces, so it can't be run here.")
        run = latest_of(self.app.store.runs_of(self._trace.id))
        text.append("\n\n")
        text.append(f"Enter opens its run {run.id}." if run else "The server has no run of it either.")
        return text

    # -- keys --------------------------------------------------------------------------------

    def _change(self, count: int) -> None:
        name = self._table.chosen
        if name is None or self._launching:
            return
        if not self._fits(name):
            self._error.tell(Text(fmt.safe_text(f"{name} can't run this trace: it is {self._trace.trace_gpu_arch}.")))
            return
        self._touched = True
        self._error.tell("")
        count = min(MAX_ENTRY_COUNT, max(0, count))
        if count:
            self._counts[name] = count
        else:
            self._counts.pop(name, None)
        self._fill()

    def _count(self) -> int:
        return self._counts.get(self._table.chosen or "", 0)

    def action_take(self) -> None:
        """Take the config under the cursor, or leave it."""
        self._change(0 if self._count() else 1)

    def action_more(self) -> None:
        """One sim more of it."""
        self._change(self._count() + 1)

    def action_fewer(self) -> None:
        """One sim fewer; at none it is left."""
        self._change(self._count() - 1)

    @on(LiveTable.Opened)
    def _clicked(self) -> None:
        self.action_take()

    def action_back(self) -> None:
        """Close."""
        self.close(None)

    def action_launch(self) -> None:
        """Launch, after one more question when there are many sims."""
        if self._trace.sample:
            run = latest_of(self.app.store.runs_of(self._trace.id))
            self.close(run.id if run else None)
            return
        sims = sum(self._counts.values())
        if not sims or self._launching:
            return
        if sims > ASK_ABOVE:
            parts = ", ".join(f"{count} × {name}" for name, count in self._entries())
            question = Confirm(f"Launch {sims} sims?", parts, yes=f"Launch {sims}", no="Not yet")
            self.app.show(question, self._sure)
        else:
            self._sure(True)

    def _entries(self) -> list[tuple[str, int]]:
        return [(c.name, self._counts[c.name]) for c in self._configs if c.name in self._counts]

    def _sure(self, sure: bool | None) -> None:
        if sure:
            self._launching = True
            self._error.tell("")
            self.run_worker(self._launch(), group="launch", exclusive=True, exit_on_error=False)

    async def _launch(self) -> None:
        entries = [RunEntry(gpu_config=name, count=count) for name, count in self._entries()]
        try:
            run = await self.app.sync.launch(RunCreate(trace_id=self._trace.id, entries=entries))
        except Unreachable as error:
            self._refused(f"{error}. The run may have been made: look at the runs before you try again.")
        except CascadeError as error:
            self._refused(str(error))
        else:
            self.close(run.id)

    def _refused(self, reason: str) -> None:
        self._launching = False
        self._error.tell(Text(f"✗ {fmt.safe_text(reason)}"))
