"""Keeps the database's traces in step with the folders they lie in."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import aiosqlite

from cascade_server import samples
from cascade_server.contract.models import TraceDetail, TraceSummary
from cascade_server.contract.states import TraceState
from cascade_server.db import traces
from cascade_server.db.connection import Database
from cascade_server.errors import NotFoundError
from cascade_server.settings import Settings

from .source_local import TraceScan, scan

log = logging.getLogger(__name__)

INTERVAL_S = 2.0
RESTS_PER_SCAN = 4.0
"""How much longer the registry rests than it scans, so that huge folders don't keep the disk or the server busy."""


@dataclass(slots=True)
class _Root:
    """A folder of traces, what the last look found in it, and why it can't be read, if so."""

    path: Path
    bundled: bool
    seen: dict[str, TraceScan] = field(default_factory=dict)
    problem: str | None = None


class TraceRegistry:
    """Scans the roots every two seconds; a trace of the user's wins over a bundled one of the same name."""

    def __init__(
        self,
        db: Database,
        settings: Settings,
        *,
        now: Callable[[], datetime],
        on_change: Callable[[TraceSummary | str], None],
    ) -> None:
        self._db = db
        self._on_change = on_change
        self._now = now
        self._roots = [_Root(settings.traces_dir, bundled=False)]
        if settings.samples:
            self._roots.append(_Root(samples.TRACES, bundled=True))
        self._stored: dict[str, TraceScan] = {}
        self._known: dict[str, TraceSummary] | None = None
        self._scanning = asyncio.Lock()

    async def all(self) -> list[TraceSummary]:
        """All traces, newest first."""
        async with self._db.read() as db:
            return await traces.list_present(db)

    async def get(self, trace_id: str) -> TraceDetail:
        """One trace. Raises NotFoundError."""
        async with self._db.read() as db:
            row = await traces.get(db, trace_id)
        if row is None:
            raise NotFoundError(f"There is no trace {trace_id!r}.")
        return row.detail

    async def run(self) -> None:
        """Scan until cancelled, every two seconds; less often where looking at the folders takes long."""
        took_s = 0.0
        while True:
            await asyncio.sleep(max(INTERVAL_S, took_s * RESTS_PER_SCAN))
            began = asyncio.get_running_loop().time()
            try:
                await self.scan()
            except Exception:
                # The traces known stay; a fault of one scan must not end all scanning.
                log.exception("scanning the traces failed; trying again")
            took_s = asyncio.get_running_loop().time() - began

    async def scan(self) -> None:
        """Look once, and store what changed."""
        async with self._scanning:
            if self._known is None:
                async with self._db.read() as db:
                    self._known = {trace.id: trace for trace in await traces.list_present(db)}
            found = await self._look(self._known)
            changed = [trace for trace_id, trace in found.items() if self._stored.get(trace_id) != trace]
            gone = await self._gone(self._known.keys() - found.keys())
            if changed or gone:
                async with self._db.transaction() as db:
                    # The demo last, so that it is the newest: a first start opens on it.
                    stored = [await self._store(trace, db) for trace in sorted(changed, key=lambda trace: trace.demo)]
                    await traces.set_absent(db, gone)
                self._known |= {summary.id: summary for summary, _ in stored}
                for trace_id in gone:
                    del self._known[trace_id]
                for summary, is_news in stored:
                    if is_news:
                        self._on_change(summary)
                for trace_id in gone:
                    self._on_change(trace_id)
            self._stored = found

    async def _look(self, known: Mapping[str, TraceSummary]) -> dict[str, TraceScan]:
        settled = {trace.id: trace.bytes for trace in known.values() if trace.state is not TraceState.UPLOADING}
        found: dict[str, TraceScan] = {}
        for root in self._roots:
            problem = None
            try:
                root.seen = await asyncio.to_thread(
                    scan, root.path, previous=root.seen, settled=settled, bundled=root.bundled
                )
            except OSError as error:
                problem = f"the folder of traces {root.path} can't be read: {error.strerror}"
            if problem is not None and problem != root.problem:
                log.warning(problem)
            root.problem = problem
            for trace_id, trace in root.seen.items():
                found.setdefault(trace_id, trace)
        return found

    async def _gone(self, missing: Set[str]) -> list[str]:
        """Those traces whose folder is gone, not merely out of sight because a root can't be read now."""
        unread = {str(root.path) for root in self._roots if root.problem is not None}
        if not missing or not unread:
            return sorted(missing)
        async with self._db.read() as db:
            rows = [await traces.get(db, trace_id) for trace_id in sorted(missing)]
        return [row.detail.id for row in rows if row is not None and str(Path(row.path).parent) not in unread]

    async def _store(self, trace: TraceScan, db: aiosqlite.Connection) -> tuple[TraceSummary, bool]:
        """Store a trace; its summary, and whether it is new or changed rather than found again after a restart."""
        row = await traces.get(db, trace.id, also_absent=True)
        now = self._now()
        detail = trace.detail(created_at=row.detail.created_at if row else now, updated_at=now)
        is_news = True
        if row is not None:
            same = detail.model_copy(update={"updated_at": row.detail.updated_at})
            before = self._stored.get(trace.id)
            touched = before is not None and before.fingerprint != trace.fingerprint
            if same == row.detail and row.path == str(trace.path) and not touched:
                detail, is_news = same, trace.id not in (self._known or {})
        await traces.upsert(db, str(trace.path), detail)
        return TraceSummary.model_validate(detail.model_dump(include=set(TraceSummary.model_fields))), is_news
