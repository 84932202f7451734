"""Where the stats blocks of a sim's kernels lie in its log."""

from __future__ import annotations

from dataclasses import dataclass

import aiosqlite


@dataclass(frozen=True, slots=True)
class BlockPlace:
    """One finished kernel's block: lines `first_line` to before `end_line` of the sim's log.

    `gpu_sim_cycle` and `stream_id` are None where the block has no number that a column takes.
    """

    kernel_index: int
    stream_id: int | None
    gpu_sim_cycle: int | None
    first_line: int
    end_line: int


async def back_from(db: aiosqlite.Connection, sim_id: str, kernel_index: int, limit: int) -> list[BlockPlace]:
    """The block of a kernel and those before it, newest first, at most `limit`; empty when there is no such kernel."""
    rows = await db.execute_fetchall(
        "SELECT kernel_index, stream_id, gpu_sim_cycle, first_line, line_count "
        "FROM kernels WHERE sim_id = ? AND kernel_index <= ? ORDER BY kernel_index DESC LIMIT ?",
        (sim_id, kernel_index, limit),
    )
    found = [
        BlockPlace(
            kernel_index=row["kernel_index"],
            stream_id=row["stream_id"],
            gpu_sim_cycle=row["gpu_sim_cycle"],
            first_line=row["first_line"],
            end_line=row["first_line"] + row["line_count"],
        )
        for row in rows
    ]
    return found if found and found[0].kernel_index == kernel_index else []


async def any_without_uid(db: aiosqlite.Connection, sim_id: str, kernel_index: int) -> bool:
    """Whether a block up to a kernel's printed no single launch uid, as the first of concurrent kernels always does."""
    cursor = await db.execute(
        "SELECT 1 FROM kernels WHERE sim_id = ? AND kernel_index <= ? "
        "AND (kernel_launch_uid IS NULL OR name_inferred) LIMIT 1",
        (sim_id, kernel_index),
    )
    return await cursor.fetchone() is not None
