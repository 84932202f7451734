"""Keeps the database's traces in step with the folders they lie in."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import aiosqlite

from cascade_server import samples
from cascade_server.contract.models import TraceDetail, TraceSummary
from cascade_server.db import traces
from cascade_server.db.connection import Database
from cascade_server.errors import NotFoundError
from cascade_server.settings import Settings

from .source_local import TraceScan, scan

log = logging.getLogger(__name__)

INTERVAL_S = 2.0


@dataclass(slots=True)
class _Root:
    """A folder of traces and what the last look found in it."""

    path: Path
    bundled: bool
    seen: dict[str, TraceScan] = field(default_factory=dict)


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
        self._complaint = ""

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
        """Scan until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_S)
            try:
                await self.scan()
            except Exception:
                # The traces known stay; a fault of one scan must not end all scanning.
                log.exception("scanning the traces failed; trying again")

    async def scan(self) -> None:
        """Look once, and store what changed."""
        found: dict[str, TraceScan] = {}
        for root in self._roots:
            try:
                root.seen = await asyncio.to_thread(scan, root.path, previous=root.seen, bundled=root.bundled)
            except OSError as error:
                self._complain(f"the trace folder {root.path} can't be read: {error.strerror}")
            for trace_id, trace in root.seen.items():
                found.setdefault(trace_id, trace)
        changed = [trace for trace_id, trace in found.items() if self._stored.get(trace_id) != trace]
        async with self._db.read() as db:
            known = {trace.id: trace for trace in await traces.list_present(db)}
        gone = known.keys() - found.keys()
        if changed or gone:
            async with self._db.transaction() as db:
                # The demo last, so that it is the newest: a first start opens on it.
                stored = [await self._store(trace, db) for trace in sorted(changed, key=lambda trace: trace.demo)]
                await traces.set_absent(db, gone)
            for news in (*stored, *gone):
                if news is not None:
                    self._on_change(news)
        self._stored = found

    async def _store(self, trace: TraceScan, db: aiosqlite.Connection) -> TraceSummary | None:
        """Store a trace; returns it if it is new or changed, None if it was found unchanged after a restart."""
        row = await traces.get(db, trace.id, also_absent=True)
        now = self._now()
        detail = trace.detail(created_at=row.detail.created_at if row else now, updated_at=now)
        if row is not None:
            same = detail.model_copy(update={"updated_at": row.detail.updated_at})
            if same == row.detail and row.path == str(trace.path):
                await traces.upsert(db, str(trace.path), same)
                return None
        await traces.upsert(db, str(trace.path), detail)
        return TraceSummary.model_validate(detail.model_dump(include=set(TraceSummary.model_fields)))

    def _complain(self, text: str) -> None:
        if text != self._complaint:
            log.warning(text)
            self._complaint = text
