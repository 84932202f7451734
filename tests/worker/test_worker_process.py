"""The worker as a real process against a real server: its exit codes, its last word, and nothing left behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil
import pytest

from tests.recordings import CASES, RECORDINGS, recording_bytes
from tests.worker.stand_ins import SIM_ID, TOKEN, FakeServer, Fault, fake_accelsim, fake_server, make_trace

LIMIT_S = 30.0


class Process:
    """A worker on one sim of `server`, in the folder `root`."""

    def __init__(self, root: Path, server: FakeServer) -> None:
        self.work_dir = root / "sim"
        self._server = server
        self._env = {
            "PATH": os.environ["PATH"],
            "CASCADE_URL": server.url,
            "CASCADE_TOKEN": TOKEN,
            "CASCADE_SIM_ID": SIM_ID,
            "CASCADE_GPU_CONFIG": "SM7_QV100",
            "CASCADE_WORK_DIR": str(self.work_dir),
            "CASCADE_HEARTBEAT_S": "0.05",
        }
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, *options: str, **env: str) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "cascade_worker", *options),
            env=self._env | env,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )

    async def end(self) -> int:
        """The exit code."""
        assert self._process is not None
        async with asyncio.timeout(LIMIT_S):
            _, stderr = await self._process.communicate()
        self.stderr = stderr.decode()
        assert TOKEN not in self.stderr
        assert self._process.returncode is not None
        assert simulators(self.work_dir) == []
        return self._process.returncode

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    @property
    def log(self) -> bytes:
        return (self.work_dir / "simulator.log").read_bytes()


def simulators(work_dir: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.cwd() == str(work_dir / "run") and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


async def until(happened: Callable[[], bool]) -> None:
    """Wait for another process to do something."""
    async with asyncio.timeout(LIMIT_S):
        while not happened():
            await asyncio.sleep(0.01)


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    async with fake_server() as running:
        yield running


@pytest.fixture
def worker(tmp_path: Path, server: FakeServer) -> Process:
    return Process(tmp_path, server)


def accelsim(root: Path, mode: str, **env: str) -> dict[str, str]:
    """The environment for a fake simulator in this mode on a trace of three kernels."""
    fake_accelsim(root / "accelsim")
    trace = make_trace(root / "trace")
    return {"CASCADE_ACCELSIM_DIR": str(root / "accelsim"), "CASCADE_TRACE": str(trace), "FAKESIM": mode, **env}


def recording(name: str, **env: str) -> dict[str, str]:
    return {"CASCADE_REPLAY_LOG": str(RECORDINGS / f"{name}.log.xz"), "CASCADE_REPLAY_SPEED": "0", **env}


async def test_a_replay_from_first_to_last_heartbeat(worker: Process, server: FakeServer) -> None:
    await worker.start(**recording("ok-demo-qv100"))
    assert await worker.end() == 0
    assert server.beats[0] == {"state": "running", "error": None, "exit_code": None}
    assert server.verdict == {"state": "succeeded", "error": None, "exit_code": 0}
    assert server.log == recording_bytes("ok-demo-qv100") == worker.log
    about = json.loads((worker.work_dir / "worker.json").read_text())
    assert set(about) == {"pid", "started"}


async def test_faults_on_the_way_change_nothing(worker: Process, server: FakeServer) -> None:
    server.faults = [Fault.DROP, Fault.LOSE_REPLY, Fault.FORGET, Fault.BUSY_AFTER, Fault.BUSY]
    server.beat_faults = [Fault.DROP]
    await worker.start(**recording("fail-killed"))
    assert await worker.end() == 1
    assert server.log == recording_bytes("fail-killed")
    assert server.verdict is not None
    assert server.verdict["exit_code"] == 137
    assert "SIGKILL" in server.verdict["error"]


async def test_a_stand_in_is_judged_by_itself(worker: Process, server: FakeServer, tmp_path: Path) -> None:
    trace = make_trace(tmp_path / "trace", kernels=2)
    await worker.start("--stand-in", **recording("ok-demo-qv100", CASCADE_TRACE=str(trace)))
    assert await worker.end() == 0


async def test_a_replay_of_the_trace_itself_needs_all_its_kernels(
    worker: Process, server: FakeServer, tmp_path: Path
) -> None:
    trace = make_trace(tmp_path / "trace", kernels=13)
    await worker.start(**recording("ok-demo-qv100", CASCADE_TRACE=str(trace)))
    assert await worker.end() == 1
    assert server.verdict is not None
    assert server.verdict["error"] == "The simulator dropped kernel 13 and exited with 0."


async def test_a_simulation(worker: Process, server: FakeServer, tmp_path: Path) -> None:
    await worker.start(**accelsim(tmp_path, "fixedfiles"))
    assert await worker.end() == 0
    assert server.log == (CASES / "C01.log").read_bytes()
    assert (worker.work_dir / "run" / "gpgpu_inst_stats.txt").exists()


@pytest.mark.parametrize(
    ("case", "sentence"), [("C06", "stopped on a deadlock"), ("C07", "unsupported binary version: 120 (sm_120)")]
)
async def test_a_simulation_that_fails(
    worker: Process, server: FakeServer, tmp_path: Path, case: str, sentence: str
) -> None:
    await worker.start(**accelsim(tmp_path, case))
    assert await worker.end() == 1
    assert server.verdict is not None
    assert sentence in server.verdict["error"]
    assert server.log == (CASES / f"{case}.log").read_bytes()


async def test_what_is_missing_is_reported_before_anything_runs(
    worker: Process, server: FakeServer, tmp_path: Path
) -> None:
    env = accelsim(tmp_path, "C01")
    (tmp_path / "trace" / "traces" / "kernel-2.traceg").unlink()
    await worker.start(**env)
    assert await worker.end() == 1
    assert server.verdict == {
        "state": "failed",
        "error": "The trace does not fit its kernelslist.g: kernel-2.traceg is missing.",
        "exit_code": None,
    }
    assert server.log == b""


async def test_cancelled_by_the_server(worker: Process, server: FakeServer, tmp_path: Path) -> None:
    await worker.start(**accelsim(tmp_path, "silent"))
    await until(lambda: b"exit detected" in server.log)
    server.cancel = True
    assert await worker.end() == 3
    assert server.verdict is None


async def test_a_sim_that_is_over_is_stopped(worker: Process, server: FakeServer, tmp_path: Path) -> None:
    await worker.start(**accelsim(tmp_path, "silent"))
    await until(lambda: b"exit detected" in server.log)
    server.over = True
    assert await worker.end() == 4


async def test_a_sim_that_is_not_ours_never_starts(worker: Process, server: FakeServer, tmp_path: Path) -> None:
    await worker.start(**accelsim(tmp_path, "C01", CASCADE_SIM_ID="sim-of-others"))
    assert await worker.end() == 4
    assert not (worker.work_dir / "run").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_told_to_stop(worker: Process, server: FakeServer, tmp_path: Path, number: signal.Signals) -> None:
    await worker.start(**accelsim(tmp_path, "silent"))
    await until(lambda: b"exit detected" in server.log)
    worker.signal(number)
    assert await worker.end() == 1
    assert server.verdict == {
        "state": "failed",
        "error": f"The worker was told to stop ({number.name}).",
        "exit_code": None,
    }


async def test_a_killed_worker_leaves_no_simulator(worker: Process, server: FakeServer, tmp_path: Path) -> None:
    await worker.start(**accelsim(tmp_path, "silent"))
    await until(lambda: b"exit detected" in server.log)
    assert simulators(worker.work_dir)
    worker.signal(signal.SIGKILL)
    await until(lambda: simulators(worker.work_dir) == [])
    assert await worker.end() == -signal.SIGKILL


async def test_starts_without_the_server_and_delivers_when_it_comes(
    worker: Process, server: FakeServer, tmp_path: Path
) -> None:
    port = int(server.url.rpartition(":")[2])
    assert server.stop is not None
    await server.stop()
    await worker.start(**recording("fail-out-of-memory"))
    await until(lambda: (worker.work_dir / "simulator.log").exists() and len(worker.log) > 1000)
    async with fake_server(port, server):
        assert await worker.end() == 1
    assert server.log == recording_bytes("fail-out-of-memory")


async def test_gives_up_when_patience_ends(worker: Process, server: FakeServer, tmp_path: Path) -> None:
    assert server.stop is not None
    await server.stop()
    await worker.start(**recording("fail-out-of-memory", CASCADE_WORKER_PATIENCE_S="0"))
    assert await worker.end() == 4
    assert worker.log == recording_bytes("fail-out-of-memory")


async def test_a_folder_in_use_is_left_alone(worker: Process, server: FakeServer) -> None:
    worker.work_dir.mkdir()
    (worker.work_dir / "simulator.log").write_bytes(b"another's")
    await worker.start(**recording("ok-demo-qv100"))
    assert await worker.end() == 2
    assert (worker.log, server.beats) == (b"another's", [])
    assert [path.name for path in worker.work_dir.iterdir()] == ["simulator.log"]


async def test_without_a_folder_nothing_is_left(worker: Process, server: FakeServer, tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    await worker.start(**recording("fail-killed", CASCADE_WORK_DIR="", TMPDIR=str(tmp_path / "tmp")))
    assert await worker.end() == 1
    assert list((tmp_path / "tmp").iterdir()) == []


async def test_the_simulator_does_not_learn_the_token(worker: Process, server: FakeServer, tmp_path: Path) -> None:
    await worker.start(**accelsim(tmp_path, "silent"))
    await until(lambda: b"exit detected" in server.log)
    for process in simulators(worker.work_dir):
        assert not [name for name in process.environ() if name.startswith("CASCADE_")]
        assert TOKEN not in " ".join(process.cmdline())
    worker.signal(signal.SIGTERM)
    await worker.end()
