"""`cascade runs`, `run show` and `run cancel`."""

from __future__ import annotations

from datetime import UTC, datetime

from rich.console import Console
from rich.text import Text

from cascade_server.contract import models as m
from cascade_server.contract.states import RunState, SimState

from . import output as out
from .client import Client
from .errors import SUCCEEDED
from .output import Column
from .text import (
    MISSING,
    count,
    counts_of,
    duration,
    elapsed_of,
    entries_of,
    finished_of,
    harmless,
    kernels_of,
    moment,
    number,
    plural,
    sim_name,
)


async def list_runs(client: Client, as_json: bool) -> int:
    """Print all runs."""
    reply = await client.get("runs", list[m.RunSummary])
    if as_json:
        out.print_json(reply.raw)
        return SUCCEEDED
    columns = [
        Column("run"),
        Column("state"),
        Column("sims", right=True, drop=1),
        Column("trace", least=12, drop=2),
        Column("configs", least=12, drop=3),
        Column("created", drop=4),
        Column("kind", drop=5),
    ]
    rows: list[list[out.Cell]] = [
        [
            run.id,
            out.state(run.state),
            finished_of(run),
            run.trace_id,
            entries_of(run),
            moment(run.created_at),
            "sample" if run.sample else "replay" if run.replay else MISSING,
        ]
        for run in reply.value
    ]
    to = out.console()
    out.table(to, columns, rows, empty="There are no runs yet: `cascade run create TRACE` launches one.")
    out.notices(to, ((run.id, run.notice) for run in reply.value if not run.sample))
    return SUCCEEDED


async def show_run(client: Client, given: str, as_json: bool) -> int:
    """Print one run with its sims."""
    reply = await client.get("run", m.RunDetail, run_id=await client.run_id(given))
    if as_json:
        out.print_json(reply.raw)
    else:
        print_run(out.console(), reply.value)
    return SUCCEEDED


async def cancel_run(client: Client, given: str, as_json: bool) -> int:
    """Cancel what is unfinished and say what became of the run."""
    run_id = await client.run_id(given)
    before = await client.run(run_id)
    reply = await client.get("cancel_run", m.RunDetail, run_id=run_id)
    if as_json:
        out.print_json(reply.raw)
        return SUCCEEDED
    run, to = reply.value, out.console()
    if before.state is not RunState.ACTIVE:
        out.line(to, f"{run.id} had ended already: {counts_of(run.sim_counts)}.")
        return SUCCEEDED
    stopped = run.sim_counts.get(SimState.CANCELLED, 0) - before.sim_counts.get(SimState.CANCELLED, 0)
    out.line(to, f"{run.id}: cancelled {plural(stopped, 'sim')}. Now: {counts_of(run.sim_counts)}.")
    return SUCCEEDED


def print_run(to: Console, run: m.RunDetail) -> None:
    """Print a run, its sims, and why those failed that did."""
    out.notice(to, run.notice)
    out.fields(
        to,
        [
            ("run", run.id),
            ("trace", run.trace_id),
            ("state", out.state(run.state)),
            ("sims", counts_of(run.sim_counts)),
            ("configs", entries_of(run)),
            ("created", moment(run.created_at)),
        ],
    )
    out.line(to)
    print_sims(to, run.sims)


def print_sims(to: Console, sims: list[m.SimSummary]) -> None:
    """Print sims as a table, and below it each reason in full."""
    now = datetime.now(UTC)
    columns = [
        Column("sim"),
        Column("config", least=9, drop=1),
        Column("#", right=True, drop=1),
        Column("state"),
        Column("kernels", right=True, drop=2),
        Column("cycles", right=True, drop=5),
        Column("ipc", right=True, drop=6),
        Column("time", right=True, drop=4),
        Column("replays", least=9, drop=3),
    ]
    replays = any(sim.replay_of for sim in sims)
    if not replays:
        columns.pop()
    rows: list[list[out.Cell]] = [
        [
            sim.id,
            sim.gpu_config,
            str(sim.replica),
            out.state(sim.state),
            kernels_of(sim),
            count(sim.latest.gpu_tot_sim_cycle),
            number(sim.latest.gpu_tot_ipc, 1),
            duration(elapsed_of(sim, now)),
            *([_replayed(sim)] if replays else []),
        ]
        for sim in sims
    ]
    out.table(to, columns, rows, empty="No sims.")
    for sim in sims:
        if sim.error:
            out.line(to, Text(f"{sim.id} ({harmless(sim_name(sim))}) {sim.state}: {harmless(sim.error)}", style="red"))


def _replayed(sim: m.SimSummary) -> str:
    if sim.replay_of is None:
        return MISSING
    return f"stand-in: {sim.replay_of}" if sim.stand_in else sim.replay_of
