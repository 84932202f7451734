"""The local launcher with real worker processes, against a server that is away: only the processes matter here."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from cascade_server import samples
from cascade_server.db.sims import LaunchSpec
from cascade_server.errors import LaunchError
from cascade_server.launchers.base import Observation, Presence, WorkerAccess
from cascade_server.launchers.local import LocalLauncher
from tests.processes import worker_processes
from tests.servers import make_settings

SIM = "sim-000000000001"
ACCESS = WorkerAccess(url="http://127.0.0.1:9", token="a-token-of-this-sim")


def spec(**changes: str | None) -> LaunchSpec:
    fields: dict[str, str | None] = {
        "replay_log": str(samples.recording_path("ok-demo-qv100")),
        "trace_path": str(samples.TRACES / "demo-sm70"),
    }
    fields |= changes
    assert fields["trace_path"] is not None
    return LaunchSpec(
        sim_id=SIM,
        run_id="run-000000000001",
        attempt=1,
        gpu_config="SM7_QV100",
        core_clock_mhz=1132.0,
        trace_path=fields["trace_path"],
        replay_log=fields["replay_log"],
        stand_in=False,
    )


@pytest.fixture
async def data_dir(tmp_path: Path) -> AsyncIterator[Path]:
    yield tmp_path
    for process in worker_processes(tmp_path):
        process.kill()


def launcher(data_dir: Path) -> LocalLauncher:
    return LocalLauncher(make_settings(data_dir, replay_speed=1))


async def look(launcher: LocalLauncher) -> Observation:
    return (await launcher.observe([SIM]))[SIM]


async def until(launcher: LocalLauncher, presence: Presence) -> Observation:
    while (seen := await look(launcher)).presence is not presence:
        await asyncio.sleep(0.02)
    return seen


async def test_a_sim_is_started_once_whoever_asks(data_dir: Path) -> None:
    first = launcher(data_dir)
    pid = await first.submit(spec(), ACCESS)
    assert await first.submit(spec(), ACCESS) == pid
    # As after a restart: another launcher, another process's memory.
    again = launcher(data_dir)
    assert await again.submit(spec(), ACCESS) == pid
    assert {p.pid for p in worker_processes(data_dir)} == {int(pid)}
    assert (await look(again)).presence is Presence.ALIVE


async def test_many_starts_at_once_start_one(data_dir: Path) -> None:
    pids = await asyncio.gather(*(launcher(data_dir).submit(spec(), ACCESS) for _ in range(5)))
    assert len(set(pids)) == 1
    assert len(worker_processes(data_dir)) == 1


async def test_a_worker_that_died_is_gone_with_a_sentence_and_not_started_again(data_dir: Path) -> None:
    first = launcher(data_dir)
    pid = await first.submit(spec(), ACCESS)
    while not (data_dir / "sims" / SIM / "worker.json").exists():
        await asyncio.sleep(0.02)
    os.kill(int(pid), signal.SIGKILL)
    seen = await until(first, Presence.GONE)
    assert seen.reason is not None
    assert seen.reason.startswith("The worker process was killed by signal 9 without a report.")
    assert seen.exit_code == -9
    with pytest.raises(LaunchError, match="ended without a report"):
        await launcher(data_dir).submit(spec(), ACCESS)


async def test_cancel_stops_the_worker_whoever_started_it(data_dir: Path) -> None:
    pid = await launcher(data_dir).submit(spec(), ACCESS)
    while not (data_dir / "sims" / SIM / "worker.json").exists():
        await asyncio.sleep(0.02)
    other = launcher(data_dir)
    await other.cancel(SIM)
    await until(other, Presence.GONE)
    assert not worker_processes(data_dir)
    await other.cancel(SIM)
    assert not psutil.pid_exists(int(pid)) or psutil.Process(int(pid)).status() == psutil.STATUS_ZOMBIE


async def test_a_pid_that_is_another_process_now_is_left_alone(data_dir: Path) -> None:
    first = launcher(data_dir)
    await first.submit(spec(), ACCESS)
    path = data_dir / "sims" / SIM / "worker.json"
    while not path.exists():
        await asyncio.sleep(0.02)
    path.write_text(json.dumps({"pid": os.getpid(), "started": 12345.0}))
    # It would be this very test that gets the signal.
    await first.cancel(SIM)
    assert (await look(first)).presence is Presence.ALIVE


async def test_the_worker_gets_its_own_token_and_nothing_of_the_servers(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CASCADE_TOKEN", "the-main-token")
    monkeypatch.setenv("CASCADE_WORKSPACE", "secret-workspace")
    pid = await launcher(data_dir).submit(spec(), ACCESS)
    process = psutil.Process(int(pid))
    while "-m" not in process.cmdline():
        await asyncio.sleep(0.02)
    assert ACCESS.token not in " ".join(process.cmdline())
    mine = {name: value for name, value in process.environ().items() if name.startswith("CASCADE_")}
    assert mine["CASCADE_TOKEN"] == ACCESS.token
    assert "the-main-token" not in mine.values()
    assert "CASCADE_WORKSPACE" not in mine


async def test_a_folder_that_cannot_be_made_is_named(data_dir: Path) -> None:
    (data_dir / "sims").write_text("a file in the way")
    with pytest.raises(LaunchError, match=r"can't be used: Not a directory|can't be used: File exists"):
        await launcher(data_dir).submit(spec(), ACCESS)


async def test_a_sim_never_started_is_gone(data_dir: Path) -> None:
    assert (await look(launcher(data_dir))).presence is Presence.GONE
