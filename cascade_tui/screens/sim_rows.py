"""Sims as rows, and the lines about a run and about one sim."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from rich.text import Text

from cascade_server.contract.models import RunDetail, SimSummary
from cascade_server.contract.states import FINISHED, RunState, SimState
from cascade_tui import format as fmt
from cascade_tui.kernel_names import short_name
from cascade_tui.widgets.live_table import Column, Row
from cascade_tui.widgets.paint import Variables, badge, bar, joined, paint, signature, sim_bar, spread

_LIVE_ONLY = frozenset({"issued", "kernel", "eta"})
"""Columns that say nothing once every sim has finished."""


def sim_columns(sims: Sequence[SimSummary]) -> tuple[Column, ...]:
    """The columns, wide enough for the sims' configs."""
    config = max((len(sim.gpu_config) + sim.stand_in for sim in sims), default=10)
    finished = bool(sims) and all(sim.state in FINISHED for sim in sims)
    columns = (
        Column("state", "state", 11, least=1),
        Column("config", "config", min(24, max(9, config))),
        Column("replica", "#", 2, priority=8, align="right"),
        Column("progress", "kernels done", 16, grow=3, most=70 if finished else 40, least=10),
        Column("issued", "issued", 7, priority=5, align="right"),
        Column("kernel", "kernel", 11, priority=4, grow=2, most=30),
        Column("simulated", "simulated", 9, priority=1 if finished else 9, align="right"),
        Column("ipc", "IPC", 6, priority=2, align="right"),
        Column("rate", "inst/s", 6, priority=6, align="right"),
        Column("elapsed", "elapsed", 7, priority=7, align="right"),
        Column("eta", "ETA", 6, priority=3, align="right"),
    )
    return tuple(column for column in columns if not (finished and column.id in _LIVE_ONLY))


def sim_row(sim: SimSummary, simulated_ns: float | None, now: datetime, variables: Variables) -> Row:
    """One sim, with the time its finished kernels take on the simulated GPU."""
    muted = paint(variables, "text-muted")
    running = sim.state in (SimState.RUNNING, SimState.LOST)
    kernel = short_name(sim.current_kernel) if sim.current_kernel and running else ""
    left = fmt.eta_of(sim, now)
    whole = sim.state is SimState.SUCCEEDED
    return Row(
        sim.id,
        {
            "state": partial(badge, fmt.SIM_LOOKS[sim.state], variables),
            "config": config_text(sim, variables),
            "replica": Text(str(sim.replica), muted),
            "progress": partial(_progress, sim, variables),
            "issued": _number(fmt.issued_of(sim), variables, "secondary"),
            "kernel": _number(kernel or fmt.MISSING, variables),
            "simulated": _number(fmt.nanoseconds(simulated_ns), variables, "" if whole else "text-muted"),
            "ipc": _number(fmt.ipc(sim.latest.gpu_tot_ipc), variables),
            "rate": _number(fmt.si(sim.latest.sim_rate_ips), variables),
            "elapsed": _number(fmt.duration(fmt.elapsed_of(sim, now)), variables),
            "eta": _number(fmt.eta(left), variables),
        },
    )


def _progress(sim: SimSummary, variables: Variables, width: int) -> Text:
    return sim_bar(sim, width, variables)


def _number(text: str, variables: Variables, color: str = "") -> Text:
    if text == fmt.MISSING:
        return Text(text, paint(variables, "faint"))
    return Text(text, paint(variables, color) if color else "")


def config_text(sim: SimSummary, variables: Variables) -> Text:
    """A sim's config, marked where a recording of something else stands in for it."""
    text = Text()
    if sim.stand_in:
        text.append("≈", paint(variables, "warning", bold=True))
    text.append(fmt.safe_text(sim.gpu_config), "bold")
    return text


def headline(run: RunDetail, sims: Sequence[SimSummary], now: datetime, variables: Variables, width: int) -> Text:
    """The run in one line: state, trace, counts, how far it is, how long it took."""
    muted = paint(variables, "text-muted")
    state = badge(fmt.RUN_LOOKS[run.state], variables)
    state.stylize("bold")
    facts = [state, Text(fmt.safe_text(run.trace_id), "bold")]
    if width >= 110:
        facts.append(Text(fmt.safe_text(run.trace.model or "")))
        facts.append(Text(fmt.safe_text(run.trace.trace_gpu_arch), muted))
    if run.sample:
        facts.append(Text("sample", paint(variables, "warning", bold=True)))
    facts.append(Text(fmt.counts_of(run, short=width < 72), muted if width < 110 else ""))
    right = Text()
    if width >= 110:
        right.append_text(_overall(run, sims, variables))
        right.append("   ")
    right.append("elapsed ", muted)
    right.append(fmt.duration(_run_seconds(run, sims, now)), "bold")
    return spread(joined(facts, "   " if width >= 110 else "  ", muted), right, max(1, width - 2))


def _overall(run: RunDetail, sims: Sequence[SimSummary], variables: Variables) -> Text:
    """All sims together: the mean of their progress."""
    parts = [fmt.progress_of(sim) for sim in sims]
    count = max(1, len(parts))
    done = sum(part.done for part in parts) / count
    issued = sum(part.issued for part in parts) / count
    text = bar(fmt.Progress(0, 0, done, issued), 20, variables, fmt.RUN_LOOKS[run.state].color)
    text.append(f" {int(done * 100):>3} %")
    return text


def _run_seconds(run: RunDetail, sims: Sequence[SimSummary], now: datetime) -> float:
    ends = [sim.finished_at for sim in sims if sim.finished_at is not None]
    end = max(ends) if ends and run.state is not RunState.ACTIVE else now
    return max(0.0, (end - run.created_at).total_seconds())


def notice_of(run: RunDetail, sims: Sequence[SimSummary]) -> Text:
    """What must be known before the numbers are believed; empty when there is nothing."""
    if run.notice:
        return Text(f"▲ {fmt.safe_text(run.notice)}")
    count = sum(sim.stand_in for sim in sims)
    if not count:
        return Text()
    which = "All sims replay" if count == len(sims) else f"{count} of {len(sims)} sims (marked ≈) replay"
    return Text(f"▲ Stand-in: {which} a recording of another trace or config. Their numbers don't describe this trace.")


def about_sim(sim: SimSummary, now: datetime, variables: Variables) -> Text:
    """The chosen sim: what it does, or how it ended. A failure's reason is given in full."""
    muted = paint(variables, "text-muted")
    look = fmt.SIM_LOOKS[sim.state]
    name = Text(f"{fmt.safe_text(sim.gpu_config)} #{sim.replica}", "bold")
    if sim.error:
        word = Text(f"{look.label}: ", paint(variables, look.color, bold=True))
        text = Text.assemble(name, " ", word, (fmt.safe_text(sim.error), paint(variables, look.color)))
        if sim.exit_code is not None:
            text.append(f" (exit code {sim.exit_code})", muted)
        return text
    facts = [name, *_facts(sim, now, variables)]
    if sim.replay_of:
        replays = f"replays {fmt.safe_text(sim.replay_of)}"
        facts.append(Text(replays, paint(variables, "warning") if sim.stand_in else muted))
    return joined(facts, " · ", muted)


def _facts(sim: SimSummary, now: datetime, variables: Variables) -> list[Text]:
    muted = paint(variables, "text-muted")
    if sim.state is SimState.PENDING:
        return [Text("waits for its turn", muted)]
    if sim.state is SimState.LAUNCHING:
        return [Text("is being started", muted)]
    elapsed = fmt.duration(fmt.elapsed_of(sim, now))
    if sim.state in FINISHED:
        count = f"{fmt.plural(sim.kernels_done, 'kernel')} in {elapsed}"
        cycles = f"{fmt.si(sim.latest.gpu_tot_sim_cycle)} cycles"
        return [badge(fmt.SIM_LOOKS[sim.state], variables), Text(count), Text(cycles)]
    facts = []
    if sim.state is SimState.LOST and sim.last_heartbeat_at is not None:
        silent = fmt.duration((now - sim.last_heartbeat_at).total_seconds())
        facts.append(Text(f"? silent for {silent}", paint(variables, "warning", bold=True)))
    if sim.current_kernel:
        facts.append(signature(sim.current_kernel, variables))
        if sim.blocks_issued is not None and sim.blocks_total:
            blocks = f"issued {fmt.issued_of(sim)} blocks"
            facts.append(Text(blocks, paint(variables, "secondary")))
    facts.append(Text(f"{elapsed} elapsed", muted))
    return facts
