"""What sims left, in the database: output files (their bytes lie beside it) and step timelines."""

from __future__ import annotations

import json
from dataclasses import dataclass

import aiosqlite

from cascade_server.contract.models import RunFile, SimFile, SimStepTimeline, StepTimelineBody


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file's row; `stored` is the name of its bytes in the sim's folder of files."""

    file: SimFile
    stored: str


def _file(row: aiosqlite.Row) -> SimFile:
    return SimFile(name=row["name"], size=row["size"], content_type=row["content_type"], created_at=row["created_at"])


async def put_file(db: aiosqlite.Connection, sim_id: str, file: SimFile, stored: str) -> str | None:
    """Store a file's row; returns where the version that it replaces lies, None if it is the first."""
    cursor = await db.execute("SELECT stored FROM files WHERE sim_id = ? AND name = ?", (sim_id, file.name))
    old = await cursor.fetchone()
    await db.execute(
        "INSERT OR REPLACE INTO files (sim_id, name, size, content_type, created_at, stored) VALUES (?, ?, ?, ?, ?, ?)",
        (sim_id, file.name, file.size, file.content_type, file.created_at.isoformat(), stored),
    )
    return None if old is None else str(old["stored"])


async def get_file(db: aiosqlite.Connection, sim_id: str, name: str) -> StoredFile | None:
    """One file, None when it is not there."""
    cursor = await db.execute("SELECT * FROM files WHERE sim_id = ? AND name = ?", (sim_id, name))
    row = await cursor.fetchone()
    return None if row is None else StoredFile(_file(row), row["stored"])


async def files_of_sim(db: aiosqlite.Connection, sim_id: str) -> list[SimFile]:
    """A sim's files by name."""
    rows = await db.execute_fetchall("SELECT * FROM files WHERE sim_id = ? ORDER BY name", (sim_id,))
    return [_file(row) for row in rows]


async def files_of_run(db: aiosqlite.Connection, run_id: str) -> list[RunFile]:
    """The files of a run's sims by config, replica and name."""
    rows = await db.execute_fetchall(
        "SELECT files.*, gpu_config, replica FROM files JOIN sims ON sims.id = sim_id WHERE run_id = ? "
        "ORDER BY gpu_config, replica, name",
        (run_id,),
    )
    return [
        RunFile(**_file(row).model_dump(), sim_id=row["sim_id"], gpu_config=row["gpu_config"], replica=row["replica"])
        for row in rows
    ]


async def put_timeline(db: aiosqlite.Connection, sim_id: str, body: StepTimelineBody) -> None:
    """Store a sim's step timeline, replacing an earlier one."""
    compare = None if body.compare is None else json.dumps(body.compare)
    await db.execute(
        "INSERT OR REPLACE INTO step_timelines (sim_id, simulated, compare) VALUES (?, ?, ?)",
        (sim_id, json.dumps(body.simulated), compare),
    )


async def timelines_of_run(db: aiosqlite.Connection, run_id: str) -> list[SimStepTimeline]:
    """The step timelines of a run's sims by config and replica."""
    rows = await db.execute_fetchall(
        "SELECT step_timelines.*, gpu_config, replica FROM step_timelines JOIN sims ON sims.id = sim_id "
        "WHERE run_id = ? ORDER BY gpu_config, replica",
        (run_id,),
    )
    return [
        SimStepTimeline(
            sim_id=row["sim_id"],
            gpu_config=row["gpu_config"],
            replica=row["replica"],
            simulated=json.loads(row["simulated"]),
            compare=None if row["compare"] is None else json.loads(row["compare"]),
        )
        for row in rows
    ]
