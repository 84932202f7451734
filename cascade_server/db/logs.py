"""The sims' logs in the database: frames of zstd-compressed lines, each line ended by a line feed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiosqlite
import zstandard

FRAME_BYTES = 1 << 20
"""Chunks are merged into frames of about this many raw bytes: stats blocks repeat, so larger frames shrink better."""

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
    """Store the next lines, merged with the chunks before them that are no larger, up to a frame.

    So sizes double from the log's end towards its start: a log of n chunks keeps about log2(n) small ones, and each
    byte is compressed again as often, however little a quiet simulator sends at a time.
    """
    rows = await db.execute_fetchall(
        "SELECT first_line, raw_bytes FROM log_chunks WHERE sim_id = ? ORDER BY first_line DESC LIMIT 32", (sim_id,)
    )
    size, first = len(frame.raw), frame.first_line
    for row in rows:
        if row["raw_bytes"] >= FRAME_BYTES or row["raw_bytes"] > size:
            break
        size, first = size + row["raw_bytes"], row["first_line"]
    if first < frame.first_line:
        old = await db.execute_fetchall(
            "SELECT data FROM log_chunks WHERE sim_id = ? AND first_line >= ? ORDER BY first_line", (sim_id, first)
        )
        raw = b"".join([*(_decompress(row["data"]) for row in old), frame.raw])
        await db.execute("DELETE FROM log_chunks WHERE sim_id = ? AND first_line >= ?", (sim_id, first))
        frame = Frame(first, frame.first_line + frame.line_count - first, raw)
    await _insert(db, sim_id, frame)


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
