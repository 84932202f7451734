"""Sims in the database. Their `state` is written by `services.lifecycle` alone."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import aiosqlite

from cascade_server.contract.models import SimMetrics, SimSummary
from cascade_server.contract.states import SimState


@dataclass(frozen=True, slots=True)
class NewSim:
    """What is known of a sim when its run is made."""

    id: str
    run_id: str
    gpu_config: str
    arch: str
    core_clock_mhz: float
    replica: int
    kernels_total: int
    created_at: datetime
    replay_log: str | None
    replay_of: str | None
    stand_in: bool


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """What a launcher needs to start a sim's worker."""

    sim_id: str
    run_id: str
    attempt: int
    gpu_config: str
    core_clock_mhz: float
    trace_path: str
    replay_log: str | None
    stand_in: bool


@dataclass(frozen=True, slots=True)
class SimHead:
    """The part of a sim that decides what may happen to it."""

    id: str
    run_id: str
    state: SimState
    attempt: int
    launcher_ref: str | None
    sample: bool


async def insert(db: aiosqlite.Connection, sim: NewSim) -> None:
    """Store a new, pending sim."""
    await db.execute(
        "INSERT INTO sims (id, run_id, gpu_config, arch, core_clock_mhz, replica, state, kernels_total, created_at, "
        "replay_log, replay_of, stand_in) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            sim.id,
            sim.run_id,
            sim.gpu_config,
            sim.arch,
            sim.core_clock_mhz,
            sim.replica,
            SimState.PENDING,
            sim.kernels_total,
            sim.created_at.isoformat(),
            sim.replay_log,
            sim.replay_of,
            sim.stand_in,
        ),
    )


async def update(db: aiosqlite.Connection, sim_id: str, values: Mapping[str, Any]) -> None:
    """Set columns of one sim; the names are the caller's own words, never from outside."""
    columns = ", ".join(f"{name} = ?" for name in values)
    await db.execute(f"UPDATE sims SET {columns} WHERE id = ?", (*values.values(), sim_id))  # noqa: S608


async def column(db: aiosqlite.Connection, sim_id: str, *names: str) -> aiosqlite.Row | None:
    """Some columns of one sim, None when unknown."""
    cursor = await db.execute(f"SELECT {', '.join(names)} FROM sims WHERE id = ?", (sim_id,))  # noqa: S608
    return await cursor.fetchone()


_HEAD = (
    "SELECT sims.id, run_id, state, attempt, launcher_ref, runs.sample AS sample "
    "FROM sims JOIN runs ON runs.id = run_id "
)


def _head(row: aiosqlite.Row) -> SimHead:
    return SimHead(
        row["id"], row["run_id"], SimState(row["state"]), row["attempt"], row["launcher_ref"], bool(row["sample"])
    )


async def head(db: aiosqlite.Connection, sim_id: str) -> SimHead | None:
    """The head of one sim, None when unknown."""
    cursor = await db.execute(_HEAD + "WHERE sims.id = ?", (sim_id,))
    row = await cursor.fetchone()
    return None if row is None else _head(row)


async def heads(db: aiosqlite.Connection, states: Collection[SimState], *, run_id: str | None = None) -> list[SimHead]:
    """Heads of all sims in some states, oldest first, of one run if given."""
    marks = ", ".join("?" * len(states))
    sql = _HEAD + f"WHERE state IN ({marks}) AND (? IS NULL OR run_id = ?) ORDER BY sims.rowid"
    return [_head(row) for row in await db.execute_fetchall(sql, (*states, run_id, run_id))]


async def launch_spec(db: aiosqlite.Connection, sim_id: str) -> LaunchSpec | None:
    """What its launcher needs; None when unknown."""
    cursor = await db.execute(
        "SELECT sims.id, run_id, attempt, gpu_config, core_clock_mhz, replay_log, stand_in, traces.path AS path "
        "FROM sims "
        "JOIN runs ON runs.id = run_id JOIN traces ON traces.id = trace_id WHERE sims.id = ?",
        (sim_id,),
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    return LaunchSpec(
        sim_id=row["id"],
        run_id=row["run_id"],
        attempt=row["attempt"],
        gpu_config=row["gpu_config"],
        core_clock_mhz=row["core_clock_mhz"],
        trace_path=row["path"],
        replay_log=row["replay_log"],
        stand_in=bool(row["stand_in"]),
    )


async def of_run(db: aiosqlite.Connection, run_id: str) -> list[SimSummary]:
    """All sims of a run, by config and replica."""
    rows = await db.execute_fetchall("SELECT * FROM sims WHERE run_id = ? ORDER BY gpu_config, replica", (run_id,))
    return [_summary(row) for row in rows]


async def get(db: aiosqlite.Connection, sim_id: str) -> SimSummary | None:
    """One sim, None when unknown."""
    cursor = await db.execute("SELECT * FROM sims WHERE id = ?", (sim_id,))
    row = await cursor.fetchone()
    return None if row is None else _summary(row)


_SAME = (
    "id",
    "run_id",
    "gpu_config",
    "replica",
    "state",
    "error",
    "launcher_ref",
    "created_at",
    "started_at",
    "finished_at",
    "last_heartbeat_at",
    "exit_code",
    "kernels_done",
    "kernels_total",
    "current_kernel",
    "log_lines",
    "blocks_issued",
    "blocks_total",
    "replay_of",
)


def _summary(row: aiosqlite.Row) -> SimSummary:
    return SimSummary(
        **{name: row[name] for name in _SAME},
        latest=SimMetrics(**{name: row[name] for name in SimMetrics.model_fields}),
        log_tail=json.loads(row["log_tail"]),
        stand_in=bool(row["stand_in"]),
    )
