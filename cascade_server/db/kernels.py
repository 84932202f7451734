"""Finished kernels in the database: the head of each; the full statistics are parsed from the stored log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import aiosqlite

from cascade_server.contract.models import KernelStat


@dataclass(frozen=True, slots=True)
class KernelRow:
    """One finished kernel and where its block lies in the sim's log."""

    kernel_index: int
    kernel_name: str
    name_inferred: bool
    kernel_launch_uid: int | None
    stream_id: int | None
    gpu_sim_cycle: int | None
    gpu_sim_insn: int | None
    gpu_ipc: float | None
    partial: bool
    first_line: int
    line_count: int


async def insert(db: aiosqlite.Connection, sim_id: str, rows: Iterable[KernelRow]) -> None:
    """Store kernels that a chunk completed."""
    await db.executemany(
        "INSERT INTO kernels (sim_id, kernel_index, kernel_name, name_inferred, kernel_launch_uid, stream_id, "
        "gpu_sim_cycle, gpu_sim_insn, gpu_ipc, partial, first_line, line_count) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                sim_id,
                row.kernel_index,
                row.kernel_name,
                row.name_inferred,
                row.kernel_launch_uid,
                row.stream_id,
                row.gpu_sim_cycle,
                row.gpu_sim_insn,
                row.gpu_ipc,
                row.partial,
                row.first_line,
                row.line_count,
            )
            for row in rows
        ],
    )


async def mark_partial(db: aiosqlite.Connection, sim_id: str, indexes: Sequence[int]) -> None:
    """A limit turned out to have cut these kernels."""
    await db.executemany(
        "UPDATE kernels SET partial = 1 WHERE sim_id = ? AND kernel_index = ?", [(sim_id, i) for i in indexes]
    )


_STAT = (
    "SELECT k.*, s.core_clock_mhz AS core_clock_mhz FROM kernels k JOIN sims s ON s.id = k.sim_id WHERE {} "
    "ORDER BY s.gpu_config, s.replica, k.kernel_index"
)


async def of_run(db: aiosqlite.Connection, run_id: str) -> list[KernelStat]:
    """Every kernel of a run by config, replica and order, without stats."""
    rows = await db.execute_fetchall(_STAT.format("s.run_id = ?"), (run_id,))
    return [_stat(row) for row in rows]


async def with_blocks(db: aiosqlite.Connection, sim_id: str) -> list[tuple[KernelStat, int, int]]:
    """A sim's kernels in order without stats, each with its block's first line and line count in the log."""
    rows = await db.execute_fetchall(_STAT.format("s.id = ?"), (sim_id,))
    return [(_stat(row), row["first_line"], row["line_count"]) for row in rows]


async def one(db: aiosqlite.Connection, sim_id: str, kernel_index: int) -> tuple[KernelStat, int, int] | None:
    """One kernel without stats, and its block's first line and line count in the log; None when not there."""
    cursor = await db.execute(_STAT.format("s.id = ? AND k.kernel_index = ?"), (sim_id, kernel_index))
    row = await cursor.fetchone()
    return None if row is None else (_stat(row), row["first_line"], row["line_count"])


def sim_time_ns(gpu_sim_cycle: int | None, core_clock_mhz: float) -> float | None:
    """Simulated time of a kernel in ns; None without cycles or clock."""
    if gpu_sim_cycle is None or core_clock_mhz <= 0:
        return None
    return gpu_sim_cycle / core_clock_mhz * 1000


def _stat(row: aiosqlite.Row) -> KernelStat:
    # model_construct: the values were validated when stored, and 40,000 of them come at once.
    return KernelStat.model_construct(
        sim_id=row["sim_id"],
        kernel_index=row["kernel_index"],
        kernel_name=row["kernel_name"],
        kernel_launch_uid=row["kernel_launch_uid"],
        gpu_sim_cycle=row["gpu_sim_cycle"],
        gpu_sim_insn=row["gpu_sim_insn"],
        gpu_ipc=row["gpu_ipc"],
        sim_time_ns=sim_time_ns(row["gpu_sim_cycle"], row["core_clock_mhz"]),
        stats={},
        name_inferred=bool(row["name_inferred"]),
        partial=bool(row["partial"]),
    )
