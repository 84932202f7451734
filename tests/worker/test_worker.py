"""The loop inside this process: what a slow, absent or cancelling server and a full disk do to it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from cascade_server.contract.client import CascadeClient
from cascade_worker.spool import Spool
from cascade_worker.worker import Worker, WorkerSettings
from tests.recordings import RECORDINGS, recording_bytes
from tests.worker.stand_ins import SIM_ID, TOKEN, FakeServer, Fault, fake_accelsim, fake_server, make_trace

LIMIT_S = 30.0


class Started:
    """A running worker."""

    def __init__(self, task: asyncio.Task[int], spool: Spool) -> None:
        self.task = task
        self.spool = spool

    async def end(self) -> int:
        async with asyncio.timeout(LIMIT_S):
            return await self.task


@asynccontextmanager
async def working(server: FakeServer, folder: Path, spool: Spool | None = None, **more: Any) -> AsyncIterator[Started]:
    settings: dict[str, Any] = {
        "sim_id": SIM_ID,
        "gpu_config": "SM7_QV100",
        "work_dir": folder,
        "heartbeat_s": 0.01,
        "term_grace_s": 0.2,
        "eof_grace_s": 0.2,
        "stop_limit_s": 0.2,
    }
    async with CascadeClient(server.url, TOKEN) as client:
        with closing(spool or Spool(folder / "simulator.log")) as used:
            task = asyncio.create_task(Worker(WorkerSettings(**settings | more), client, used).run())
            yield Started(task, used)
            assert task.done()


def recording(name: str) -> dict[str, Any]:
    return {"replay_log": RECORDINGS / f"{name}.log.xz", "replay_speed": 0.0}


def silent_simulator(root: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("FAKESIM", "silent")
    return {"accelsim_dir": fake_accelsim(root / "accelsim"), "trace": make_trace(root / "trace")}


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not happened():
            await asyncio.sleep(0.005)


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    async with fake_server() as running:
        yield running


async def test_heartbeats_do_not_wait_for_the_log(server: FakeServer, tmp_path: Path) -> None:
    server.hang = asyncio.Event()
    async with working(server, tmp_path, **recording("ok-demo-qv100")) as worker:
        await until(lambda: worker.spool.closed)
        before = len(server.beats)
        await until(lambda: len(server.beats) > before + 5)
        assert server.lines == []
        server.hang.set()
        assert await worker.end() == 0
    assert server.log == recording_bytes("ok-demo-qv100")


async def test_the_log_does_not_wait_for_heartbeats(server: FakeServer, tmp_path: Path) -> None:
    server.beat_faults = [Fault.BUSY] * 3
    async with working(server, tmp_path, heartbeat_s=3600.0, **recording("ok-demo-qv100")) as worker:
        assert await worker.end() == 0
    assert server.log == recording_bytes("ok-demo-qv100")


async def test_cancelled_while_the_last_lines_wait(server: FakeServer, tmp_path: Path) -> None:
    server.hang = asyncio.Event()
    async with working(server, tmp_path, **recording("ok-demo-qv100")) as worker:
        await until(lambda: worker.spool.closed)
        server.cancel = True
        assert await worker.end() == 3
        server.hang.set()
    assert server.verdict is None


async def test_stopped_before_the_last_lines_arrived_is_no_success(server: FakeServer, tmp_path: Path) -> None:
    server.hang = asyncio.Event()
    async with working(server, tmp_path, **recording("ok-demo-qv100")) as worker:
        await until(lambda: worker.spool.closed)
        os.kill(os.getpid(), signal.SIGTERM)
        assert await worker.end() == 1
        server.hang.set()
    assert server.verdict is not None
    assert server.verdict["error"] == "The worker was told to stop (SIGTERM)."


async def test_stopped_while_the_server_is_away(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with working(server, tmp_path, **silent_simulator(tmp_path, monkeypatch)) as worker:
        await until(lambda: b"exit detected" in server.log)
        assert server.stop is not None
        await server.stop()
        os.kill(os.getpid(), signal.SIGTERM)
        assert await worker.end() == 4
    assert server.verdict is None


async def test_a_second_signal_changes_nothing(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with working(server, tmp_path, **silent_simulator(tmp_path, monkeypatch)) as worker:
        await until(lambda: b"exit detected" in server.log)
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGTERM)
        assert await worker.end() == 1
    assert server.verdict is not None
    assert server.verdict["error"] == "The worker was told to stop (SIGINT)."


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
async def test_a_full_disk_fails_the_sim_with_a_sentence(server: FakeServer, tmp_path: Path) -> None:
    spool = Spool(tmp_path / "simulator.log")
    full = os.open("/dev/full", os.O_RDWR)
    os.dup2(full, spool._fd)
    os.close(full)
    async with working(server, tmp_path, spool, **recording("ok-demo-qv100")) as worker:
        assert await worker.end() == 1
    assert server.verdict == {"state": "failed", "error": f"The disk under {tmp_path} is full.", "exit_code": None}


async def test_a_damaged_recording_fails_the_sim_and_keeps_what_came(server: FakeServer, tmp_path: Path) -> None:
    broken = tmp_path / "broken.log.xz"
    broken.write_bytes((RECORDINGS / "ok-k400-rtx3070.log.xz").read_bytes()[:-100])
    async with working(server, tmp_path, heartbeat_s=1.0, replay_log=broken, replay_speed=0.0) as worker:
        assert await worker.end() == 1
    assert server.verdict is not None
    assert "is damaged" in server.verdict["error"]
    assert server.log == worker.spool.path.read_bytes()
    assert len(server.log) > 1_000_000


async def test_signals_are_given_back(server: FakeServer, tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    async with working(server, tmp_path, **recording("fail-killed")) as worker:
        assert await worker.end() == 1
    assert signal.getsignal(signal.SIGTERM) is before
