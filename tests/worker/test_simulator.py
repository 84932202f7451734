"""A real child process: all its output, its exit code, and nothing left of it."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import psutil
import pytest

from cascade_worker.simulator import Simulator
from cascade_worker.source import SourceError
from cascade_worker.workspace import Launch, prepare
from tests.recordings import CASES
from tests.worker.stand_ins import fake_accelsim, make_trace


class Run:
    """A fake simulator in the given mode, and what it printed."""

    def __init__(self, root: Path, mode: str, **env: str) -> None:
        accelsim = root / "accelsim"
        if not accelsim.exists():
            fake_accelsim(accelsim)
            make_trace(root / "trace")
        environment = {"PATH": os.environ["PATH"], "FAKESIM": mode, **env}
        count = len(list(root.glob("run-*")))
        self.launch: Launch = prepare(accelsim, "SM7_QV100", root / "trace", root / f"run-{count}", environment)
        self.printed = b""
        self.spoke = asyncio.Event()

    def take(self, data: bytes) -> None:
        self.printed += data
        self.spoke.set()

    def start(self) -> asyncio.Task[int]:
        simulator = Simulator(
            self.launch.command, cwd=self.launch.cwd, env=self.launch.env, term_grace_s=0.3, eof_grace_s=0.2
        )
        return asyncio.create_task(simulator.run(self.take))

    def processes(self) -> list[psutil.Process]:
        """What runs in the run directory."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.cwd() == str(self.launch.cwd) and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.Error:
                continue
        return found


async def finish(run: Run) -> int:
    async with asyncio.timeout(20):
        code = await run.start()
    assert run.processes() == []
    return code


async def test_case_c06_a_line_of_82_kib_and_a_death_by_signal(tmp_path: Path) -> None:
    run = Run(tmp_path, "C06")
    assert await finish(run) == 134
    assert run.printed == (CASES / "C06.log").read_bytes()


async def test_case_c07_exit_code_0(tmp_path: Path) -> None:
    run = Run(tmp_path, "C07")
    assert await finish(run) == 0
    assert run.printed == (CASES / "C07.log").read_bytes()


async def test_case_c10_stderr_is_kept_in_the_same_stream(tmp_path: Path) -> None:
    run = Run(tmp_path, "C10")
    assert await finish(run) == 0
    assert run.printed == (CASES / "C10.log").read_bytes() + (CASES / "C10.err").read_bytes()


async def test_case_c36_a_child_that_holds_the_output_does_not_hold_the_end(tmp_path: Path) -> None:
    run = Run(tmp_path, "leftover")
    assert await finish(run) == 0
    assert run.printed == (CASES / "C01.log").read_bytes()


async def test_case_c36_one_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    run = Run(tmp_path, "ignoreterm")
    running = run.start()
    async with asyncio.timeout(20):
        await run.spoke.wait()
        assert run.processes()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert run.processes() == []


async def test_case_c37_each_run_has_its_own_fixed_files(tmp_path: Path) -> None:
    runs = [Run(tmp_path, "fixedfiles") for _ in range(2)]
    assert await asyncio.gather(*map(finish, runs)) == [0, 0]
    written = [(run.launch.cwd / "gpgpu_inst_stats.txt").read_text() for run in runs]
    assert written[0] != written[1]


async def test_a_flood_arrives_whole(tmp_path: Path) -> None:
    run = Run(tmp_path, "flood", FAKESIM_LINES="20000")
    assert await finish(run) == 0
    assert run.printed.count(b"LIVENESS") == 20_000


async def test_what_the_sink_raises_stops_the_simulator(tmp_path: Path) -> None:
    run = Run(tmp_path, "silent")

    def refuse(data: bytes) -> None:
        raise ValueError("no room")

    simulator = Simulator(run.launch.command, cwd=run.launch.cwd, env=run.launch.env, term_grace_s=0.3)
    async with asyncio.timeout(20):
        with pytest.raises(ValueError, match="no room"):
            await simulator.run(refuse)
    assert run.processes() == []


async def test_killed_from_outside(tmp_path: Path) -> None:
    run = Run(tmp_path, "silent")
    running = run.start()
    async with asyncio.timeout(20):
        await run.spoke.wait()
        for process in run.processes():
            process.send_signal(signal.SIGKILL)
        assert await running == 137


async def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    missing = Simulator([str(tmp_path / "none")], cwd=tmp_path, env={})
    with pytest.raises(SourceError, match=r"none could not be started: there is no such program\."):
        await missing.run(lambda data: None)
    nowhere = Simulator(["/bin/true"], cwd=tmp_path / "nowhere", env={})
    with pytest.raises(SourceError, match="could not be started"):
        await nowhere.run(lambda data: None)
