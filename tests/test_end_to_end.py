"""The whole chain with real processes: server, launcher, workers, event stream, terminal app; and the server killed."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from cascade_server.contract.client import CascadeClient, Unreachable
from cascade_server.contract.events import KernelEvent, LogEvent, SimEvent, SnapshotEvent
from cascade_server.contract.models import RunCreate, RunDetail, RunEntry
from cascade_server.contract.states import RunState, SimState
from tests.processes import ServerProcess, server_process, worker_processes
from tests.recordings import TRUTH, recording_bytes, recording_lines

RECORDINGS = {"SM7_QV100": "ok-demo-qv100", "SM7_TITANV": "ok-demo-titanv"}


class Watcher:
    """Follows a run through its stream, as a client does that reconnects."""

    def __init__(self, server: ServerProcess, run_id: str) -> None:
        self._server = server
        self._run_id = run_id
        self.kernels: dict[tuple[str, int], int | None] = {}
        self.logs: dict[str, dict[int, str]] = {}
        self.states: dict[str, SimState] = {}
        self.progress: list[tuple[str, int, int | None]] = []
        self.snapshots = 0

    async def follow(self) -> None:
        while True:
            try:
                async with self._server.client() as client:
                    async for event in client.run_events(self._run_id):
                        self._take(event)
                        if len(self.states) == 6 and all(state.is_finished for state in self.states.values()):
                            return
            except Unreachable:
                await asyncio.sleep(0.05)

    def _take(self, event: SnapshotEvent | SimEvent | LogEvent | KernelEvent) -> None:
        if isinstance(event, SnapshotEvent):
            self.snapshots += 1
            self.states = {sim.id: sim.state for sim in event.run.sims}
            for stat in event.kernels:
                self.kernels[stat.sim_id, stat.kernel_index] = stat.gpu_sim_cycle
        elif isinstance(event, SimEvent):
            self.states[event.sim.id] = event.sim.state
            self.progress.append((event.sim.id, event.sim.kernels_done, event.sim.blocks_issued))
        elif isinstance(event, KernelEvent):
            self.kernels[event.stat.sim_id, event.stat.kernel_index] = event.stat.gpu_sim_cycle
        else:
            assert event.seq is not None
            log = self.logs.setdefault(event.sim_id, {})
            for number, line in enumerate(event.lines, event.seq):
                assert log.setdefault(number, line) == line


async def check_everything(client: CascadeClient, run: RunDetail) -> None:
    """Every number and byte of the run against the recordings and their independently extracted values."""
    run = await client.run(run.id)
    assert run.state is RunState.SUCCEEDED
    kernels = await client.run_kernels(run.id)
    count = Counter(kernel.sim_id for kernel in kernels)
    for sim in run.sims:
        name = RECORDINGS[sim.gpu_config]
        truth = TRUTH[name]["kernels"]
        mine = [kernel for kernel in kernels if kernel.sim_id == sim.id]
        assert [k.kernel_index for k in mine] == list(range(12))
        assert [(k.kernel_name, k.gpu_sim_cycle, k.gpu_sim_insn, k.gpu_ipc) for k in mine] == [
            (t["kernel_name"], t["gpu_sim_cycle"], t["gpu_sim_insn"], t["gpu_ipc"]) for t in truth
        ]
        assert (sim.kernels_done, sim.kernels_total, count[sim.id], sim.exit_code) == (12, 12, 12, 0)
        assert sim.latest.gpu_tot_sim_cycle == truth[-1]["gpu_tot_sim_cycle"]
        assert sim.error is None
        assert b"".join([chunk async for chunk in client.sim_log(sim.id)]) == recording_bytes(name)


@pytest.mark.timeout(180)
async def test_a_run_to_the_end_with_the_server_killed_in_the_middle(tmp_path: Path) -> None:
    # The recordings take 56 s and 36 s; at 12 times that a run lasts some seconds, long enough to die in it.
    async with server_process(tmp_path, replay_speed="12", max_local_sims="4") as server:
        async with server.client() as client:
            entries = [RunEntry(gpu_config=config, count=3) for config in RECORDINGS]
            run = await client.create_run(RunCreate(trace_id="demo-sm70", entries=entries))
        assert set(run.sim_counts) <= {SimState.PENDING, SimState.LAUNCHING}
        watcher = Watcher(server, run.id)
        following = asyncio.create_task(watcher.follow())
        refs: dict[str, str] = {}
        for kernels_seen in (3, 20, 40):
            while len(watcher.kernels) < kernels_seen:
                await asyncio.sleep(0.02)
                assert not following.done()
            await note_workers(server, run, refs)
            await server.stop(signal.SIGKILL)
            with sqlite3.connect(tmp_path / "cascade.db") as db:
                assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            db.close()
            await server.start()
        await following
        await note_workers(server, run, refs)
        async with server.client() as client:
            await check_everything(client, run)
        # Each sim was started once: one worker each, and no other was ever there.
        assert len(set(refs.values())) == 6
        assert watcher.snapshots >= 4
        expected = {
            (sim.id, i): t["gpu_sim_cycle"]
            for sim in run.sims
            for i, t in enumerate(TRUTH[RECORDINGS[sim.gpu_config]]["kernels"])
        }
        assert watcher.kernels == expected
        for sim in run.sims:
            lines = recording_lines(RECORDINGS[sim.gpu_config])
            assert all(lines[number] == line for number, line in watcher.logs.get(sim.id, {}).items())
        # Within a kernel too, and never backwards.
        assert any(issued for _, _, issued in watcher.progress)
        for sim in run.sims:
            done = [kernels for sim_id, kernels, _ in watcher.progress if sim_id == sim.id]
            assert done == sorted(done)
        while worker_processes(tmp_path):
            await asyncio.sleep(0.05)
        # What the server has is not kept twice.
        for sim in run.sims:
            while (tmp_path / "sims" / sim.id / "simulator.log").exists():
                await asyncio.sleep(0.05)


async def note_workers(server: ServerProcess, run: RunDetail, refs: dict[str, str]) -> None:
    """Every sim keeps the worker it was first given."""
    async with server.client() as client:
        for sim in (await client.run(run.id)).sims:
            if sim.launcher_ref is not None:
                assert refs.setdefault(sim.id, sim.launcher_ref) == sim.launcher_ref


async def test_slots_are_kept_and_pending_sims_start_in_order(tmp_path: Path) -> None:
    async with server_process(tmp_path, replay_speed="0", max_local_sims="1") as server, server.client() as client:
        entries = [RunEntry(gpu_config="SM7_TITANV", count=2), RunEntry(gpu_config="SM7_QV100", count=2)]
        run = await client.create_run(RunCreate(trace_id="demo-sm70", entries=entries))
        while (now := await client.run(run.id)).state is RunState.ACTIVE:
            busy = sum(sim.state in (SimState.LAUNCHING, SimState.RUNNING) for sim in now.sims)
            assert busy <= 1
            await asyncio.sleep(0.05)
        assert now.state is RunState.SUCCEEDED
        order = sorted(now.sims, key=lambda sim: (sim.started_at is None, sim.started_at))
        assert [(sim.gpu_config, sim.replica) for sim in order] == [
            ("SM7_TITANV", 0),
            ("SM7_TITANV", 1),
            ("SM7_QV100", 0),
            ("SM7_QV100", 1),
        ]


async def test_cancel_leaves_no_process(tmp_path: Path) -> None:
    async with server_process(tmp_path, replay_speed="1", max_local_sims="2") as server, server.client() as client:
        entries = [RunEntry(gpu_config="SM7_QV100", count=3)]
        run = await client.create_run(RunCreate(trace_id="demo-sm70", entries=entries))
        while len(worker_processes(tmp_path)) < 2:
            await asyncio.sleep(0.05)
        cancelled = await client.cancel_run(run.id)
        assert cancelled.sim_counts == {SimState.CANCELLED: 3}
        while worker_processes(tmp_path):
            await asyncio.sleep(0.05)
        assert (await client.run(run.id)).sim_counts == {SimState.CANCELLED: 3}


async def test_a_killed_worker_is_named_with_its_signal(tmp_path: Path) -> None:
    async with server_process(tmp_path, replay_speed="1") as server, server.client() as client:
        entries = [RunEntry(gpu_config="SM7_QV100", count=1)]
        run = await client.create_run(RunCreate(trace_id="demo-sm70", entries=entries))
        while (await client.run(run.id)).sims[0].state is not SimState.RUNNING:
            await asyncio.sleep(0.05)
        for process in worker_processes(tmp_path):
            process.kill()
        while (sim := (await client.run(run.id)).sims[0]).state is SimState.RUNNING:
            await asyncio.sleep(0.05)
        assert sim.state is SimState.FAILED
        assert sim.error is not None
        assert "killed by signal 9" in sim.error


async def test_a_server_killed_around_a_start_starts_each_sim_exactly_once(tmp_path: Path) -> None:
    async with server_process(tmp_path, replay_speed="12", max_local_sims="2") as server:
        async with server.client() as client:
            entries = [RunEntry(gpu_config="SM7_TITANV", count=2)]
            run = await client.create_run(RunCreate(trace_id="demo-sm70", entries=entries))
            while any(sim.state is not SimState.RUNNING for sim in (await client.run(run.id)).sims):
                await asyncio.sleep(0.02)
            refs = {sim.id: sim.launcher_ref for sim in (await client.run(run.id)).sims}
        await server.stop(signal.SIGKILL)
        # As if it had died after the fork and before it could write down whom it started.
        with sqlite3.connect(tmp_path / "cascade.db") as db:
            db.execute("UPDATE sims SET state = 'launching', launcher_ref = NULL WHERE run_id = ?", (run.id,))
        db.close()
        await server.start()
        async with server.client() as client:
            while (now := await client.run(run.id)).state is RunState.ACTIVE:
                await asyncio.sleep(0.05)
            assert now.state is RunState.SUCCEEDED
            assert {sim.id: sim.launcher_ref for sim in now.sims} == refs
            for sim in now.sims:
                log = b"".join([chunk async for chunk in client.sim_log(sim.id)])
                assert log == recording_bytes("ok-demo-titanv")
        await server.stop(signal.SIGKILL)
        # As if it had died between the mark and the fork: nobody was ever started.
        with sqlite3.connect(tmp_path / "cascade.db") as db:
            db.execute(
                "INSERT INTO sims (id, run_id, gpu_config, arch, core_clock_mhz, replica, state, stand_in, created_at, "
                "kernels_total, replay_log) SELECT 'sim-0000000000aa', run_id, gpu_config, arch, core_clock_mhz, 7, "
                "'launching', stand_in, created_at, kernels_total, replay_log FROM sims WHERE run_id = ? LIMIT 1",
                (run.id,),
            )
        db.close()
        await server.start()
        async with server.client() as client:
            while (now := await client.run(run.id)).state is RunState.ACTIVE:
                await asyncio.sleep(0.05)
        assert now.state is RunState.SUCCEEDED
        assert now.sims[-1].kernels_done == 12
