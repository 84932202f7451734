"""Home: the traces, with the kernels and runs of the one under the cursor."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal

from cascade_server.contract.models import KernelLaunch, TraceSummary
from cascade_server.contract.states import TraceState
from cascade_tui import format as fmt
from cascade_tui.keymap import bindings
from cascade_tui.widgets.line import Line
from cascade_tui.widgets.live_table import Column, LiveTable, Row
from cascade_tui.widgets.paint import DONE, Variables, badge, joined, paint, signature
from cascade_tui.widgets.pane import Pane

from .base import PanedScreen
from .run_rows import run_columns, run_row


def trace_columns(traces: Sequence[TraceSummary]) -> tuple[Column, ...]:
    """The columns, wide enough for the traces' ids. The model is told below the table, too: it goes first."""
    longest = max((len(trace.id) for trace in traces), default=14)
    return (
        Column("state", "state", 12, least=1),
        Column("id", "trace", min(40, max(14, longest)), grow=1, most=48),
        Column("tag", "", 6),
        Column("model", "model", 22, priority=6, grow=3, most=44),
        Column("arch", "arch", 5),
        Column("kernels", "kernels", 7, align="right"),
        Column("size", "size", 7, priority=4, align="right"),
        Column("runs", "runs", 4, priority=2, align="right"),
        Column("age", "age", 4, priority=5, align="right"),
    )


def kernel_columns(kernels: Sequence[KernelLaunch]) -> tuple[Column, ...]:
    """The columns, wide enough for the kernels' grids and blocks."""
    grid = max((len(fmt.dims(kernel.grid)) for kernel in kernels), default=4)
    block = max((len(fmt.dims(kernel.block)) for kernel in kernels), default=5)
    return (
        Column("id", "#", 4, align="right"),
        Column("name", "kernel", 20, grow=3, least=8),
        Column("grid", "grid", max(4, grid), align="right"),
        Column("block", "block", max(5, block), align="right"),
        Column("instructions", "instr", 6, priority=1, align="right"),
        Column("share", "", 8, priority=2, grow=1, most=24),
    )


class TracesScreen(PanedScreen):
    """Traces on top; kernels and runs below."""

    CSS_PATH = "traces.tcss"
    CONTEXT = "traces"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("traces")]
    AUTO_FOCUS = "#traces"

    def __init__(self) -> None:
        super().__init__("traces")
        self._traces = LiveTable(trace_columns([]), id="traces")
        self._kernels = LiveTable(kernel_columns([]), id="kernels")
        self._runs = LiveTable(run_columns([], trace=False), id="trace-runs")
        self._detail = Line(id="detail")

    def compose_body(self) -> ComposeResult:
        """The panes."""
        siblings = ((2, "Kernels"), (3, "Runs"))
        yield Pane(1, "Traces", self._traces)
        yield self._detail
        with Horizontal(id="lower"):
            yield Pane(2, "Kernels", self._kernels, siblings)
            yield Pane(3, "Runs", self._runs, siblings)

    @property
    def trace(self) -> TraceSummary | None:
        """The trace under the cursor."""
        chosen = self._traces.chosen
        return self.app.store.trace(chosen) if chosen is not None else None

    def flush(self) -> None:
        """Show traces, and what belongs to the chosen one."""
        store, variables = self.app.store, self.app.theme_variables
        self._traces.set_columns(trace_columns(store.traces))
        self._traces.show([self._row(trace, variables) for trace in store.traces])
        self.pane(1).say("" if store.traces else _no_traces(store.loaded))
        self.pane(1).title_line.tell(Text(str(len(store.traces)), paint(variables, "text-muted")))
        self._show_chosen()

    def _row(self, trace: TraceSummary, variables: Variables) -> Row:
        muted = paint(variables, "text-muted")
        runs = len(self.app.store.runs_of(trace.id))
        return Row(
            trace.id,
            {
                "state": partial(badge, fmt.TRACE_LOOKS[trace.state], variables),
                "id": Text(fmt.safe_text(trace.id), "bold"),
                "tag": tag(trace, variables),
                "model": Text(fmt.safe_text(trace.model or fmt.MISSING)),
                "arch": Text(fmt.safe_text(trace.trace_gpu_arch)),
                "kernels": Text(f"{trace.kernel_count:,}"),
                "size": Text(fmt.size(trace.bytes)),
                "runs": Text(str(runs) if runs else fmt.MISSING),
                "age": Text(fmt.age(trace.created_at, self.app.now()), muted),
            },
        )

    def _show_chosen(self) -> None:
        trace, variables = self.trace, self.app.theme_variables
        detail = self.app.store.trace_detail(trace.id) if trace else None
        kernels = detail.kernels if detail else []
        runs = self.app.store.runs_of(trace.id) if trace else []
        self._detail.tell(about(trace, variables) if trace else Text())
        most = max((kernel.instructions or 0 for kernel in kernels), default=0)
        self._kernels.set_columns(kernel_columns(kernels))
        self._kernels.show([_kernel_row(kernel, most, variables) for kernel in kernels])
        self._runs.set_columns(run_columns(runs, trace=False))
        self._runs.show([run_row(run, variables, self.app.now()) for run in runs])
        self.pane(2).say(_no_kernels(trace) if trace and detail and not kernels else "")
        self.pane(3).say("No run of this trace yet." if trace and not runs and self.app.store.loaded else "")
        muted = paint(variables, "text-muted")
        self.pane(2).title_line.tell(Text(f"{len(kernels):,}" if kernels else "", muted))
        self.pane(3).title_line.tell(Text(str(len(runs)) if runs else "", muted))

    @on(LiveTable.Chosen, "#traces")
    def _trace_chosen(self, event: LiveTable.Chosen) -> None:
        if type(event) is LiveTable.Chosen and event.key is not None:
            self.app.sync.show_trace(event.key)
            self._show_chosen()

    @on(LiveTable.Opened, "#traces")
    def _trace_opened(self) -> None:
        self.action_new_run()

    @on(LiveTable.Opened, "#trace-runs")
    def _run_opened(self, event: LiveTable.Opened) -> None:
        if event.key is not None:
            self.app.open_run(event.key)

    def choose(self, trace_id: str) -> None:
        """Put the cursor on a trace."""
        self._traces.choose(trace_id)

    def action_new_run(self) -> None:
        """Ask for configs and counts, then launch."""
        if self.trace is not None:
            self.app.ask_new_run(self.trace.id)

    def action_back(self) -> None:
        """Give every pane its room back; this is the home screen."""
        if not self.unzoom():
            self._traces.focus()


def tag(trace: TraceSummary, variables: Variables) -> Text:
    """Mark what comes with Cascade."""
    if trace.demo:
        return Text("demo", paint(variables, "secondary", bold=True))
    return Text("sample", paint(variables, "warning", bold=True)) if trace.sample else Text()


def about(trace: TraceSummary, variables: Variables) -> Text:
    """Say in one or two lines what a trace is and what can be done with it."""
    muted = paint(variables, "text-muted")
    facts = [Text(fmt.safe_text(trace.id), "bold"), Text(fmt.safe_text(trace.model or ""))]
    if trace.layers:
        facts.append(Text(fmt.safe_text(f"layers {_ranges(trace.layers)}")))
    if trace.source_gpu:
        facts.append(Text(fmt.safe_text(f"traced on {trace.source_gpu}")))
    facts.append(Text(fmt.safe_text(f"for {trace.trace_gpu_arch}")))
    if trace.suggested_sim_config:
        facts.append(Text(fmt.safe_text(f"suggested {trace.suggested_sim_config}")))
    if trace.has_real_timing:
        facts.append(Text("has real timing"))
    return Text("\n").join([joined(facts, " · ", muted), _can_be_done(trace, variables)])


def _can_be_done(trace: TraceSummary, variables: Variables) -> Text:
    muted = paint(variables, "text-muted")
    if trace.state is TraceState.FAILED:
        reason = fmt.safe_text(trace.error or "The trace failed, without a reason.")
        return Text(f"✗ {reason}", paint(variables, "error"))
    if trace.state is not TraceState.READY:
        return Text(f"{fmt.TRACE_LOOKS[trace.state].label}: it can be run once it is ready.", muted)
    if trace.demo:
        return Text.assemble(
            ("demo", paint(variables, "secondary", bold=True)), (": can be run now. Enter starts a run.", "")
        )
    if trace.sample:
        return Text.assemble(
            ("sample", paint(variables, "warning", bold=True)), (": finished results only. Enter shows them.", "")
        )
    return Text("Enter starts a run.", muted)


def _ranges(layers: list[str]) -> str:
    """Layers as given, whole ranges of numbers short: 0, 1, 2, 3 is `0–3`."""
    if len(layers) > 2 and [str(i) for i in range(len(layers))] == layers:
        return f"0–{len(layers) - 1}"
    return ", ".join(layers)


def _kernel_row(kernel: KernelLaunch, most: int, variables: Variables) -> Row:
    muted = paint(variables, "text-muted")
    return Row(
        str(kernel.kernel_id),
        {
            "id": Text(str(kernel.kernel_id), muted),
            "name": signature(kernel.name, variables),
            "grid": Text(fmt.dims(kernel.grid)),
            "block": Text(fmt.dims(kernel.block)),
            "instructions": Text(fmt.si(kernel.instructions)),
            "share": partial(_share, kernel.instructions or 0, most, variables),
        },
    )


def _share(instructions: int, most: int, variables: Variables, width: int) -> Text:
    """A kernel's instructions beside those of the trace's largest."""
    return Text(DONE * round(instructions / most * width) if most else "", paint(variables, "faint"))


def _no_traces(loaded: bool) -> str:
    return "No traces yet. Put one into the server's folder of traces." if loaded else "Asking the server …"


def _no_kernels(trace: TraceSummary) -> str:
    return "Its kernels show once it is ready." if trace.state is not TraceState.READY else "It lists no kernels."
