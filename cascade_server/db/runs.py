"""Runs in the database."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime

import aiosqlite
from pydantic import TypeAdapter

from cascade_server.contract.models import RunEntry, RunSummary
from cascade_server.contract.states import SimState, run_state

_ENTRIES = TypeAdapter(list[RunEntry])


async def insert(
    db: aiosqlite.Connection,
    run_id: str,
    trace_id: str,
    created_at: datetime,
    entries: list[RunEntry],
    *,
    sample: bool,
    replay: bool,
    notice: str | None,
) -> None:
    """Store a new run; its sims come in the same transaction."""
    await db.execute(
        "INSERT INTO runs (id, trace_id, created_at, entries, sample, replay, notice) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            run_id,
            trace_id,
            created_at.isoformat(),
            _ENTRIES.dump_json(entries).decode(),
            sample,
            replay,
            notice,
        ),
    )


async def exists(db: aiosqlite.Connection, run_id: str) -> bool:
    """Whether there is such a run."""
    cursor = await db.execute("SELECT 1 FROM runs WHERE id = ?", (run_id,))
    return await cursor.fetchone() is not None


async def summaries(db: aiosqlite.Connection, run_id: str | None = None) -> list[RunSummary]:
    """All runs newest first, or the one (an empty list when unknown)."""
    where, args = ("", ()) if run_id is None else ("WHERE {} = ?", (run_id,))
    counts: dict[str, dict[SimState, int]] = defaultdict(dict)
    for row in await db.execute_fetchall(
        f"SELECT run_id, state, count(*) AS n FROM sims {where.format('run_id')} GROUP BY run_id, state",  # noqa: S608
        args,
    ):
        counts[row["run_id"]][SimState(row["state"])] = row["n"]
    rows = await db.execute_fetchall(
        f"SELECT * FROM runs {where.format('id')} ORDER BY created_at DESC, rowid DESC",  # noqa: S608
        args,
    )
    return [_summary(row, counts[row["id"]]) for row in rows]


def _summary(row: aiosqlite.Row, counts: dict[SimState, int]) -> RunSummary:
    return RunSummary(
        id=row["id"],
        trace_id=row["trace_id"],
        created_at=row["created_at"],
        state=run_state(counts),
        entries=_ENTRIES.validate_json(row["entries"]),
        sim_counts={state: counts[state] for state in SimState if state in counts},
        sample=bool(row["sample"]),
        replay=bool(row["replay"]),
        notice=row["notice"],
    )
