"""One SQLite file in WAL mode: one writer connection, several readers."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path

import aiosqlite

from cascade_server.errors import StartError

from .migrate import migrate

READERS = 4
BUSY_TIMEOUT_MS = 5000


class Database:
    """Access to the database; made by `open_database`."""

    def __init__(self, writer: aiosqlite.Connection, readers: list[aiosqlite.Connection]) -> None:
        self._writer = writer
        self._lock = asyncio.Lock()
        self._idle: asyncio.Queue[aiosqlite.Connection] = asyncio.Queue()
        for reader in readers:
            self._idle.put_nowait(reader)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[aiosqlite.Connection]:
        """The one writer, in a transaction that commits at the end and rolls back on any error.

        Never await a peer (network, process) inside. Tasks wait for each other here: two on one connection
        would share one transaction. IMMEDIATE, since a deferred one that turns to writing fails at once.
        """
        async with self._lock:
            try:
                await self._writer.execute("BEGIN IMMEDIATE")
                yield self._writer
                await self._writer.commit()
            except BaseException:
                # Whether or not one is open: a task cancelled during an await can't tell what its statement, which
                # runs on in the connection's thread, will have done. Without a transaction this does nothing.
                await self._writer.rollback()
                raise

    @asynccontextmanager
    async def read(self) -> AsyncIterator[aiosqlite.Connection]:
        """A reader that sees one state of the database for as long as it is held."""
        connection = await self._idle.get()
        try:
            await connection.execute("BEGIN")
            yield connection
        finally:
            # Back at once: what is queued on a connection is done in order, so its next user comes after the rollback.
            self._idle.put_nowait(connection)
            await connection.rollback()


def _prepare(path: Path) -> None:
    with closing(sqlite3.connect(path, timeout=BUSY_TIMEOUT_MS / 1000, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        migrate(connection)


async def _connect(path: Path, stack: AsyncExitStack) -> aiosqlite.Connection:
    # An unclosed connection keeps the interpreter alive for ever: only ever open on a stack.
    connection = await stack.enter_async_context(aiosqlite.connect(path, isolation_level=None))
    connection.row_factory = sqlite3.Row
    for pragma in (f"busy_timeout={BUSY_TIMEOUT_MS}", "synchronous=NORMAL", "foreign_keys=ON"):
        await connection.execute(f"PRAGMA {pragma}")
    return connection


@asynccontextmanager
async def open_database(path: Path) -> AsyncIterator[Database]:
    """Open the database, made and migrated as needed.

    Raises StartError with a sentence when the file can't be used.
    """
    async with AsyncExitStack() as stack:
        try:
            await asyncio.to_thread(_prepare, path)
            writer = await _connect(path, stack)
            readers = [await _connect(path, stack) for _ in range(READERS)]
            for reader in readers:
                await reader.execute("PRAGMA query_only=ON")
        except sqlite3.Error as error:
            raise StartError(f"The database {path} can't be used: {error}.") from error
        yield Database(writer, readers)
