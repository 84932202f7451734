"""Takes log chunks: stores the lines, the kernels they completed and the sim's progress in one transaction.

So a crash at any moment loses and doubles nothing. The parser of a sim lives here while chunks come in; after a
restart it goes on from the sim's checkpoint, fed with the stored lines behind it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import aiosqlite

from cascade_server.contract.events import KernelEvent, LogEvent, SimEvent
from cascade_server.contract.models import INT64_MAX, KernelStat, LogChunk
from cascade_server.contract.states import SimState
from cascade_server.contract.text import display_text, line_to_bytes
from cascade_server.db import kernels, logs, sims
from cascade_server.db.connection import Database
from cascade_server.errors import ConflictError, LogGapError, NotFoundError
from cascade_server.simlog.parser import Checkpoint, KernelBlock, LogParser, PartialMark, block_stats

from .bus import Bus

TAIL_LINES = 20


@dataclass(slots=True)
class _Feed:
    """A sim whose log is coming in."""

    run_id: str
    core_clock_mhz: float
    parser: LogParser
    tail: list[str]
    unterminated: bool

    @property
    def next_line(self) -> int:
        return self.parser.next_line


class Ingest:
    """The feeds of all sims that send."""

    def __init__(self, db: Database, bus: Bus) -> None:
        self._db = db
        self._bus = bus
        self._feeds: dict[str, _Feed] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def forget(self, sim_id: str) -> None:
        """Drop what is held in memory for a sim, when it has finished."""
        self._feeds.pop(sim_id, None)

    async def add(self, sim_id: str, chunk: LogChunk) -> int:
        """Store the lines of a chunk that are new; returns the line number wanted next.

        Raises LogGapError when lines are missing before it, NotFoundError, and ConflictError after the log's end.
        """
        lock = self._locks.setdefault(sim_id, asyncio.Lock())
        async with lock:
            feed = self._feeds.get(sim_id) or await self._load(sim_id)
            if chunk.seq > feed.next_line:
                raise LogGapError(feed.next_line, chunk.seq)
            lines: list[str] = chunk.lines[feed.next_line - chunk.seq :]
            if not lines:
                return feed.next_line
            if feed.unterminated:
                raise ConflictError("The log has ended: its last line had no line feed.")
            # Taken out until the commit: if anything fails, the next chunk starts from what is stored.
            self._feeds.pop(sim_id, None)
            await self._store(sim_id, feed, lines, unterminated=chunk.unterminated)
            return feed.next_line

    async def _load(self, sim_id: str) -> _Feed:
        async with self._db.read() as db:
            row = await sims.column(
                db, sim_id, "run_id", "core_clock_mhz", "checkpoint", "log_lines", "log_tail", "log_unterminated"
            )
            if row is None:
                raise NotFoundError(f"There is no sim {sim_id!r}.")
            checkpoint = Checkpoint.from_json(row["checkpoint"]) if row["checkpoint"] else Checkpoint()
            parser = LogParser(checkpoint)
            behind = await logs.lines(db, sim_id, checkpoint.line, row["log_lines"])
        parser.feed([line.decode("utf-8", "replace") for line in behind])
        return _Feed(
            run_id=row["run_id"],
            core_clock_mhz=row["core_clock_mhz"],
            parser=parser,
            tail=json.loads(row["log_tail"]),
            unterminated=bool(row["log_unterminated"]),
        )

    async def _store(self, sim_id: str, feed: _Feed, lines: Sequence[str], *, unterminated: bool) -> None:
        first_line = feed.next_line
        text = "\n".join(lines)
        raw = line_to_bytes(text) + b"\n"
        shown = list(lines) if text.isascii() else display_text(text).split("\n")
        found = feed.parser.feed(shown)
        blocks = [item for item in found if isinstance(item, KernelBlock)]
        marks = [item.kernel_index for item in found if isinstance(item, PartialMark)]
        feed.tail = [*feed.tail, *shown[-TAIL_LINES:]][-TAIL_LINES:]
        feed.unterminated = unterminated
        async with self._db.transaction() as db:
            await logs.append(db, sim_id, logs.Frame(first_line, len(lines), raw))
            if blocks:
                await kernels.insert(db, sim_id, [_row(block) for block in blocks])
            if marks:
                await kernels.mark_partial(db, sim_id, marks)
            await sims.update(db, sim_id, _progress(feed))
            row = await sims.column(db, sim_id, "state")
        # No await since the commit: `forget` for a sim that finishes comes before this or after it.
        if row is not None and not SimState(row["state"]).is_finished:
            self._feeds[sim_id] = feed
        if self._bus.watched(feed.run_id):
            await self._publish(sim_id, feed, LogEvent(sim_id=sim_id, lines=shown, seq=first_line), blocks, marks)

    async def _publish(
        self, sim_id: str, feed: _Feed, event: LogEvent, blocks: Sequence[KernelBlock], marks: Sequence[int]
    ) -> None:
        self._bus.publish(feed.run_id, event)
        for block in blocks:
            self._bus.publish(feed.run_id, KernelEvent(stat=_stat(sim_id, block, feed.core_clock_mhz)))
        async with self._db.read() as db:
            for index in set(marks):
                if (stat := await full_stat(db, sim_id, index)) is not None:
                    self._bus.publish(feed.run_id, KernelEvent(stat=stat))
            sim = await sims.get(db, sim_id)
        if sim is not None:
            self._bus.publish(feed.run_id, SimEvent(sim=sim))


async def full_stat(db: aiosqlite.Connection, sim_id: str, kernel_index: int) -> KernelStat | None:
    """One stored kernel with the full statistics of its block in the log."""
    found = await kernels.one(db, sim_id, kernel_index)
    if found is None:
        return None
    stat, first_line, line_count = found
    lines = await logs.lines(db, sim_id, first_line, first_line + line_count)
    stat.stats = block_stats([line.decode("utf-8", "replace") for line in lines])
    return stat


def _progress(feed: _Feed) -> dict[str, Any]:
    parser = feed.parser
    totals = parser.metrics
    return {
        "log_lines": parser.next_line,
        "log_unterminated": feed.unterminated,
        "log_tail": json.dumps(feed.tail),
        "checkpoint": parser.checkpoint.to_json(),
        "kernels_done": parser.kernels_done,
        "current_kernel": parser.current_kernel,
        "blocks_issued": parser.blocks_issued,
        "blocks_total": parser.blocks_total,
        "gpu_tot_sim_cycle": totals.gpu_tot_sim_cycle,
        "gpu_tot_sim_insn": totals.gpu_tot_sim_insn,
        "gpu_tot_ipc": totals.gpu_tot_ipc,
        "sim_rate_ips": totals.sim_rate_ips,
    }


def _int64(value: int | None) -> int | None:
    """A number as SQLite can hold it; one beyond stays readable in the block's statistics."""
    return value if value is not None and -INT64_MAX <= value <= INT64_MAX else None


def _row(block: KernelBlock) -> kernels.KernelRow:
    return kernels.KernelRow(
        kernel_index=block.kernel_index,
        kernel_name=block.kernel_name,
        name_inferred=block.name_inferred,
        kernel_launch_uid=_int64(block.kernel_launch_uid),
        stream_id=_int64(block.stream_id),
        gpu_sim_cycle=_int64(block.gpu_sim_cycle),
        gpu_sim_insn=_int64(block.gpu_sim_insn),
        gpu_ipc=block.gpu_ipc,
        partial=block.partial,
        first_line=block.first_line,
        line_count=block.line_count,
    )


def _stat(sim_id: str, block: KernelBlock, core_clock_mhz: float) -> KernelStat:
    cycles = _int64(block.gpu_sim_cycle)
    return KernelStat(
        sim_id=sim_id,
        kernel_index=block.kernel_index,
        kernel_name=block.kernel_name,
        kernel_launch_uid=_int64(block.kernel_launch_uid),
        gpu_sim_cycle=cycles,
        gpu_sim_insn=_int64(block.gpu_sim_insn),
        gpu_ipc=block.gpu_ipc,
        sim_time_ns=kernels.sim_time_ns(cycles, core_clock_mhz),
        stats=block.stats(),
        name_inferred=block.name_inferred,
        partial=block.partial,
    )
