"""Runs as rows: the same in the list of all runs and in a trace's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

from rich.text import Text

from cascade_server.contract.models import RunSummary
from cascade_server.contract.states import RunState
from cascade_tui import format as fmt
from cascade_tui.widgets.live_table import Column, Row
from cascade_tui.widgets.paint import Variables, badge, bar, paint


def run_columns(runs: Sequence[RunSummary], *, trace: bool = True) -> tuple[Column, ...]:
    """The columns, wide enough for what the runs have; `trace`: whether to name each run's trace."""
    names = max((len(run.trace_id) for run in runs), default=10)
    configs = max((len(fmt.entries_of(run)) + 2 for run in runs), default=10)
    columns = (
        Column("state", "state", 11, least=1),
        Column("id", "run", 16, priority=6),
        Column("trace", "trace", min(28, max(10, names)), priority=3, grow=1, most=40),
        Column("configs", "configs", min(30, max(12, configs)), grow=3, most=max(30, configs), least=8),
        Column("sims", "sims finished", 13, priority=2, grow=1, most=26),
        Column("age", "age", 4, priority=5, align="right"),
    )
    return tuple(column for column in columns if trace or column.id != "trace")


def run_row(run: RunSummary, variables: Variables, now: datetime) -> Row:
    """One run."""
    muted = paint(variables, "text-muted")
    return Row(
        run.id,
        {
            "state": partial(badge, fmt.RUN_LOOKS[run.state], variables),
            "id": Text(fmt.safe_text(run.id)),
            "trace": Text(fmt.safe_text(run.trace_id), "bold"),
            "configs": _configs(run, variables),
            "sims": _sims(run, variables),
            "age": Text(fmt.age(run.created_at, now), muted),
        },
    )


def _configs(run: RunSummary, variables: Variables) -> Text:
    text = Text()
    if run.sample:
        text.append("sample ", paint(variables, "warning", bold=True))
    elif run.notice:
        text.append("▲ ", paint(variables, "warning", bold=True))
    text.append(fmt.entries_of(run))
    return text


def _sims(run: RunSummary, variables: Variables) -> Callable[[int], Text]:
    """A bar of finished sims with their count; a failed share is told by the count of what went wrong."""
    finished, total = fmt.finished_of(run)

    def cell(width: int) -> Text:
        count = f"{finished}/{total}"
        room = width - max(5, len(count)) - 1
        part = finished / total if total else 0.0
        color = fmt.RUN_LOOKS[run.state].color if run.state is not RunState.ACTIVE else "primary"
        text = bar(fmt.Progress(finished, total, part, 0.0), max(0, room), variables, color)
        text.append(f" {count:>5}")
        return text

    return cell
