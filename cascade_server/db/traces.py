"""Traces in the database. A row outlives its folder, since runs refer to it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import aiosqlite
from pydantic import TypeAdapter

from cascade_server.contract.models import KernelLaunch, TraceDetail, TraceSummary

_KERNELS = TypeAdapter(list[KernelLaunch])


@dataclass(frozen=True, slots=True)
class TraceRow:
    """A trace and the folder it lies in."""

    path: str
    detail: TraceDetail


async def upsert(db: aiosqlite.Connection, path: str, detail: TraceDetail) -> None:
    """Store a trace as present, replacing what was known."""
    summary = TraceSummary.model_validate(detail.model_dump())
    await db.execute(
        "INSERT INTO traces (id, path, present, created_at, summary, metadata, kernels) VALUES (?, ?, 1, ?, ?, ?, ?) "
        "ON CONFLICT (id) DO UPDATE SET path = excluded.path, present = 1, created_at = excluded.created_at, "
        "summary = excluded.summary, metadata = excluded.metadata, kernels = excluded.kernels",
        (
            detail.id,
            path,
            detail.created_at.isoformat(),
            summary.model_dump_json(),
            None if detail.metadata is None else json.dumps(detail.metadata),
            _KERNELS.dump_json(detail.kernels).decode(),
        ),
    )


async def set_absent(db: aiosqlite.Connection, trace_ids: Iterable[str]) -> None:
    """Mark traces whose folders are gone."""
    await db.executemany("UPDATE traces SET present = 0 WHERE id = ?", [(i,) for i in trace_ids])


async def list_present(db: aiosqlite.Connection) -> list[TraceSummary]:
    """All traces whose folder is there, newest first."""
    rows = await db.execute_fetchall("SELECT summary FROM traces WHERE present = 1 ORDER BY created_at DESC, id")
    return [TraceSummary.model_validate_json(row["summary"]) for row in rows]


async def get(db: aiosqlite.Connection, trace_id: str, *, also_absent: bool = False) -> TraceRow | None:
    """One trace; None when unknown, or its folder is gone and `also_absent` is not set."""
    cursor = await db.execute(
        "SELECT path, summary, metadata, kernels FROM traces WHERE id = ? AND (present = 1 OR ?)",
        (trace_id, also_absent),
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    metadata: dict[str, Any] | None = None if row["metadata"] is None else json.loads(row["metadata"])
    summary = TraceSummary.model_validate_json(row["summary"])
    detail = TraceDetail(**summary.model_dump(), metadata=metadata, kernels=_KERNELS.validate_json(row["kernels"]))
    return TraceRow(path=row["path"], detail=detail)


async def summary(db: aiosqlite.Connection, trace_id: str) -> TraceSummary:
    """The summary of a trace that a run refers to."""
    cursor = await db.execute("SELECT summary FROM traces WHERE id = ?", (trace_id,))
    row = await cursor.fetchone()
    if row is None:
        raise LookupError(f"trace {trace_id} has no row")
    return TraceSummary.model_validate_json(row["summary"])
