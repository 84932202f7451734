"""Output files and step timelines that workers send."""

from __future__ import annotations

import asyncio
import mimetypes
import os
import re
import secrets
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from cascade_server.contract.models import FILE_NAME, RunFile, SimFile, SimStepTimeline, StepTimelineBody
from cascade_server.db import outputs, runs, sims
from cascade_server.db.connection import Database
from cascade_server.errors import InvalidError, NotFoundError, TooLargeError

CONTENT_TYPES = {
    ".csv": "text/csv",
    ".txt": "text/plain",
    ".log": "text/plain",
    ".json": "application/json",
    ".gz": "application/gzip",
}


def content_type(name: str) -> str:
    """The type a file is served with, by its name's ending."""
    known = CONTENT_TYPES.get(Path(name).suffix.lower())
    return known or mimetypes.guess_type(name)[0] or "application/octet-stream"


class Outputs:
    """Files lie in `root`/<sim>/, each version under a name of its own; the database says which one counts."""

    def __init__(self, db: Database, root: Path, *, max_bytes: int, now: Callable[[], datetime]) -> None:
        self._db = db
        self._root = root
        self._max_bytes = max_bytes
        self._now = now

    async def put(self, sim_id: str, name: str, chunks: AsyncIterator[bytes]) -> SimFile:
        """Store a file as it comes; a file of that name is replaced once all of it is here, or not at all.

        Raises InvalidError for a name outside the pattern, NotFoundError, TooLargeError.
        """
        if not re.fullmatch(FILE_NAME, name):
            raise InvalidError(
                "A file's name is 1 to 128 of letters, digits, '.', '_' and '-', and neither '.' nor '..'."
            )
        await self._check_sim(sim_id)
        folder = self._root / sim_id
        stored = f"{name}.{secrets.token_hex(6)}"
        path = folder / stored
        try:
            size = await self._receive(path, chunks)
            file = SimFile(name=name, size=size, content_type=content_type(name), created_at=self._now())
            async with self._db.transaction() as db:
                old = await outputs.put_file(db, sim_id, file, stored)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        if old is not None:
            (folder / old).unlink(missing_ok=True)
        return file

    async def _receive(self, path: Path, chunks: AsyncIterator[bytes]) -> int:
        await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True, mode=0o700)
        size = 0
        file = await asyncio.to_thread(path.open, "xb")
        try:
            async for chunk in chunks:
                size += len(chunk)
                if size > self._max_bytes:
                    raise TooLargeError(f"A file may have at most {self._max_bytes} bytes (CASCADE_MAX_FILE_BYTES).")
                await asyncio.to_thread(file.write, chunk)
            await asyncio.to_thread(_sync, file)
        finally:
            file.close()
        return size

    async def get(self, sim_id: str, name: str) -> tuple[SimFile, Path]:
        """A file and where its bytes lie. Raises NotFoundError."""
        await self._check_sim(sim_id)
        async with self._db.read() as db:
            found = await outputs.get_file(db, sim_id, name)
        if found is None:
            raise NotFoundError(f"Sim {sim_id!r} has no file {name!r}.")
        return found.file, self._root / sim_id / found.stored

    async def of_sim(self, sim_id: str) -> list[SimFile]:
        """A sim's files by name. Raises NotFoundError."""
        await self._check_sim(sim_id)
        async with self._db.read() as db:
            return await outputs.files_of_sim(db, sim_id)

    async def of_run(self, run_id: str) -> list[RunFile]:
        """All files of a run. Raises NotFoundError."""
        await self._check_run(run_id)
        async with self._db.read() as db:
            return await outputs.files_of_run(db, run_id)

    async def put_timeline(self, sim_id: str, body: StepTimelineBody) -> None:
        """Store a sim's step timeline. Raises NotFoundError."""
        await self._check_sim(sim_id)
        async with self._db.transaction() as db:
            await outputs.put_timeline(db, sim_id, body)

    async def timelines(self, run_id: str) -> list[SimStepTimeline]:
        """The step timelines of a run. Raises NotFoundError."""
        await self._check_run(run_id)
        async with self._db.read() as db:
            return await outputs.timelines_of_run(db, run_id)

    async def _check_sim(self, sim_id: str) -> None:
        async with self._db.read() as db:
            if await sims.head(db, sim_id) is None:
                raise NotFoundError(f"There is no sim {sim_id!r}.")

    async def _check_run(self, run_id: str) -> None:
        async with self._db.read() as db:
            if not await runs.exists(db, run_id):
                raise NotFoundError(f"There is no run {run_id!r}.")


def _sync(file: BinaryIO) -> None:
    # The row must not outlive the bytes in a power cut.
    file.flush()
    os.fsync(file.fileno())
