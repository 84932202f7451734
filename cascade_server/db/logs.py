"""The sims' logs in the database: frames of zstd-compressed lines, each line ended by a line feed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiosqlite
import zstandard

FRAME_BYTES = 1 << 20
"""Chunks are merged into frames of about this many raw bytes: stats blocks repeat, so larger frames shrink better."""

MOST_CHUNKS = 64
"""So many chunks in a row are merged too: a quiet simulator sends a few lines at a time for hours."""

LEVEL = 3


@dataclass(frozen=True, slots=True)
class Frame:
    """Some consecutive lines of a log: `raw` holds `line_count` lines, each ended by a line feed."""

    first_line: int
    line_count: int
    raw: bytes


def _decompress(data: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompress(data)


async def append(db: aiosqlite.Connection, sim_id: str, frame: Frame) -> None:
    """Store the next lines; small chunks at the log's end are merged once they make a frame."""
    await _insert(db, sim_id, frame)
    cursor = await db.execute(
        "SELECT sum(raw_bytes) AS bytes, count(*) AS n, min(first_line) AS first FROM "
        "(SELECT raw_bytes, first_line FROM log_chunks WHERE sim_id = ? ORDER BY first_line DESC LIMIT ?) "
        "WHERE raw_bytes < ?",
        (sim_id, MOST_CHUNKS, FRAME_BYTES),
    )
    small = await cursor.fetchone()
    if small is None or small["n"] < 2 or (small["n"] < MOST_CHUNKS and small["bytes"] < FRAME_BYTES):
        return
    # Small chunks lie behind all frames, as only the end of the log grows.
    rows = list(
        await db.execute_fetchall(
            "SELECT first_line, line_count, data FROM log_chunks WHERE sim_id = ? AND first_line >= ? "
            "ORDER BY first_line",
            (sim_id, small["first"]),
        )
    )
    raw = b"".join(_decompress(row["data"]) for row in rows)
    await db.execute("DELETE FROM log_chunks WHERE sim_id = ? AND first_line >= ?", (sim_id, small["first"]))
    await _insert(db, sim_id, Frame(rows[0]["first_line"], sum(row["line_count"] for row in rows), raw))


async def _insert(db: aiosqlite.Connection, sim_id: str, frame: Frame) -> None:
    data = zstandard.ZstdCompressor(level=LEVEL).compress(frame.raw)
    await db.execute(
        "INSERT INTO log_chunks (sim_id, first_line, line_count, raw_bytes, data) VALUES (?, ?, ?, ?, ?)",
        (sim_id, frame.first_line, frame.line_count, len(frame.raw), data),
    )


async def frames(
    db: aiosqlite.Connection, sim_id: str, first_line: int = 0, end_line: int | None = None
) -> AsyncIterator[Frame]:
    """The frames that hold lines from `first_line` (to before `end_line`), in order; the first may begin earlier."""
    at = first_line
    while end_line is None or at < end_line:
        # One by one, not one cursor: a client may take minutes over a log, and others need the connection.
        cursor = await db.execute(
            "SELECT first_line, line_count, data FROM log_chunks WHERE sim_id = ? AND first_line <= ? "
            "AND first_line + line_count > ? ORDER BY first_line DESC LIMIT 1",
            (sim_id, at, at),
        )
        row = await cursor.fetchone()
        if row is None:
            return
        yield Frame(row["first_line"], row["line_count"], _decompress(row["data"]))
        at = row["first_line"] + row["line_count"]


async def lines(db: aiosqlite.Connection, sim_id: str, first_line: int, end_line: int) -> list[bytes]:
    """Lines `first_line` to before `end_line` without their line feeds; fewer when the log is shorter."""
    out: list[bytes] = []
    async for frame in frames(db, sim_id, first_line, end_line):
        skip = max(0, first_line - frame.first_line)
        take = min(frame.line_count, end_line - frame.first_line)
        out.extend(frame.raw.split(b"\n")[skip:take])
    return out
