import asyncio
import sqlite3
from pathlib import Path

import pytest

from cascade_server.db import logs
from cascade_server.db.connection import open_database
from cascade_server.db.migrate import migrations
from cascade_server.errors import StartError


async def test_a_transaction_commits_whole_or_not_at_all(tmp_path: Path) -> None:
    async with open_database(tmp_path / "x.db") as db:
        async with db.transaction() as writer:
            await writer.execute("CREATE TABLE t (n INTEGER)")

        async def add(number: int) -> None:
            async with db.transaction() as writer:
                await writer.execute("INSERT INTO t VALUES (?)", (number,))
                await asyncio.sleep(0)
                if number % 2:
                    raise ValueError(number)

        results = await asyncio.gather(*(add(n) for n in range(10)), return_exceptions=True)
        assert sum(isinstance(r, ValueError) for r in results) == 5
        async with db.read() as reader:
            rows = await reader.execute_fetchall("SELECT n FROM t ORDER BY n")
        assert [row["n"] for row in rows] == [0, 2, 4, 6, 8]


async def test_a_cancelled_transaction_rolls_back(tmp_path: Path) -> None:
    async with open_database(tmp_path / "x.db") as db:
        async with db.transaction() as writer:
            await writer.execute("CREATE TABLE t (n INTEGER)")
        inside = asyncio.Event()

        async def hang() -> None:
            async with db.transaction() as writer:
                await writer.execute("INSERT INTO t VALUES (1)")
                inside.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(hang())
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with db.transaction() as writer:
            await writer.execute("INSERT INTO t VALUES (2)")
        async with db.read() as reader:
            assert [row["n"] for row in await reader.execute_fetchall("SELECT n FROM t")] == [2]


async def test_a_reader_cancelled_anywhere_is_as_good_as_new(tmp_path: Path) -> None:
    async with open_database(tmp_path / "x.db") as db:
        for steps in range(12):

            async def read() -> None:
                async with db.read() as reader:
                    await reader.execute("SELECT 1")

            task = asyncio.create_task(read())
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        for _ in range(10):
            async with db.read() as reader:
                assert list(await reader.execute_fetchall("SELECT 1"))


async def test_a_reader_sees_one_state_and_cannot_write(tmp_path: Path) -> None:
    async with open_database(tmp_path / "x.db") as db:
        async with db.transaction() as writer:
            await writer.execute("CREATE TABLE t (n INTEGER)")
        async with db.read() as reader:
            assert not list(await reader.execute_fetchall("SELECT n FROM t"))
            async with db.transaction() as writer:
                await writer.execute("INSERT INTO t VALUES (1)")
            assert not list(await reader.execute_fetchall("SELECT n FROM t"))
            with pytest.raises(sqlite3.OperationalError, match="readonly"):
                await reader.execute("INSERT INTO t VALUES (3)")


def test_migrations_are_numbered_without_gaps() -> None:
    assert [number for number, _ in migrations()] == list(range(1, len(migrations()) + 1))


async def test_a_newer_database_is_refused_with_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 999")
    connection.close()
    with pytest.raises(StartError, match="newer version"):
        async with open_database(path):
            pass


async def test_a_file_that_is_no_database_is_refused_with_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(b"this is no database" * 100)
    with pytest.raises(StartError, match=r"x\.db can't be used"):
        async with open_database(path):
            pass


async def test_lines_come_from_the_right_frames(tmp_path: Path) -> None:
    async with open_database(tmp_path / "x.db") as db:
        async with db.transaction() as writer:
            await writer.execute("PRAGMA defer_foreign_keys = ON")
            await writer.execute("INSERT INTO traces VALUES ('t', '', 1, '', '', NULL, '')")
            await writer.execute("INSERT INTO runs VALUES ('r', 't', '', '', 0, 0, NULL)")
            await writer.execute(
                "INSERT INTO sims (id, run_id, gpu_config, arch, core_clock_mhz, replica, state, stand_in, created_at, "
                "kernels_total) VALUES ('s', 'r', '', '', 1, 0, '', 0, '', 0)"
            )
        for first in range(0, 300, 3):
            raw = b"".join(b"%d\n" % n for n in range(first, first + 3))
            async with db.transaction() as writer:
                await logs.append(writer, "s", logs.Frame(first, 3, raw))
        async with db.read() as reader:
            for start, end in ((0, 300), (0, 1), (299, 300), (100, 200), (191, 193), (300, 400), (5, 5)):
                expected = [b"%d" % n for n in range(start, min(end, 300))]
                assert await logs.lines(reader, "s", start, end) == expected
