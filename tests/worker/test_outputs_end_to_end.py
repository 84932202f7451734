"""A real worker process on a real server: files and step timeline, byte for byte and to the last digit."""

from __future__ import annotations

import asyncio
import csv
import gzip
import io
import os
import sys
from pathlib import Path

from cascade_server.contract.models import SimSummary
from cascade_server.contract.states import SimState
from tests.recordings import RECORDINGS, TRUTH, recording_bytes
from tests.servers import Running, running_server
from tests.worker.timelines import QV100_MHZ, demo_ns, demo_trace

LIMIT_S = 40.0


async def work(server: Running, sim: SimSummary, trace: Path, work_dir: Path) -> str:
    """Replay the trace's true recording as the launcher would have it; returns what the worker logged."""
    worker = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "cascade_worker"),
        env={
            "PATH": os.environ["PATH"],
            "CASCADE_URL": server.url,
            "CASCADE_TOKEN": server.core.tokens.sims.make(sim.id, 1),
            "CASCADE_SIM_ID": sim.id,
            "CASCADE_GPU_CONFIG": sim.gpu_config,
            "CASCADE_CORE_CLOCK_MHZ": f"{QV100_MHZ:g}",
            "CASCADE_TRACE": str(trace),
            "CASCADE_WORK_DIR": str(work_dir),
            "CASCADE_REPLAY_LOG": str(RECORDINGS / "ok-demo-qv100.log.xz"),
            "CASCADE_REPLAY_SPEED": "0",
        },
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(LIMIT_S):
        _, stderr = await worker.communicate()
    assert worker.returncode == 0
    return stderr.decode()


async def read(server: Running, sim: SimSummary, name: str) -> bytes:
    return b"".join([chunk async for chunk in server.client.sim_file(sim.id, name)])


async def test_files_and_step_timeline_arrive(tmp_path: Path) -> None:
    async with running_server(tmp_path / "data") as server:
        run = await server.create()
        (sim,) = run.sims
        await work(server, sim, demo_trace(tmp_path / "demo"), tmp_path / "sim")
        (sim,) = (await server.client.run(run.id)).sims
        assert (sim.state, sim.error, sim.kernels_done) == (SimState.SUCCEEDED, None, 12)
        files = await server.client.run_files(run.id)
        assert [(file.name, file.content_type) for file in files] == [
            ("kernel-stats.csv", "text/csv"),
            ("simulator.log.gz", "application/gzip"),
        ]
        assert gzip.decompress(await read(server, sim, "simulator.log.gz")) == recording_bytes("ok-demo-qv100")
        table = list(csv.DictReader(io.StringIO((await read(server, sim, "kernel-stats.csv")).decode(), newline="")))
        kernels = await server.client.run_kernels(run.id)
        for row, kernel, truth in zip(table, kernels, TRUTH["ok-demo-qv100"]["kernels"], strict=True):
            assert row["kernel_index"] == str(kernel.kernel_index)
            assert row["kernel_name"] == kernel.kernel_name
            assert int(row["gpu_sim_cycle (cycles)"]) == kernel.gpu_sim_cycle == truth["gpu_sim_cycle"]
            assert float(row["sim_time_ns"]) == kernel.sim_time_ns
        (timeline,) = await server.client.step_timelines(run.id)
        assert (timeline.sim_id, timeline.gpu_config) == (sim.id, "SM7_QV100")
        first, second, third = timeline.simulated["steps"]
        assert [kernel["duration_ns"] for kernel in first["kernels"]] == [demo_ns(1), demo_ns(12), 10000]
        assert first["duration_ns"] == 100000 - 60000.5 + (demo_ns(1) + demo_ns(12) + 10000)
        assert second["duration_ns"] == 5000 + demo_ns(1)
        assert third["duration_ns"] == 30000
        assert timeline.compare is not None
        assert [row["index"] for row in timeline.compare["per_step"]] == [0, 1, 2]


async def test_a_server_that_wants_no_files_and_half_a_timeline_fail_nothing(tmp_path: Path) -> None:
    async with running_server(tmp_path / "data", max_file_bytes=1000) as server:
        run = await server.create()
        (sim,) = run.sims
        said = await work(server, sim, demo_trace(tmp_path / "demo", mapping=None), tmp_path / "sim")
        (sim,) = (await server.client.run(run.id)).sims
        assert (sim.state, sim.error) == (SimState.SUCCEEDED, None)
        assert await server.client.run_files(run.id) == []
        assert await server.client.step_timelines(run.id) == []
        for name in ("simulator.log.gz", "kernel-stats.csv"):
            assert f"the file {name} is left out: A file may have at most 1000 bytes" in said
        log = b"".join([chunk async for chunk in server.client.sim_log(sim.id)])
        assert log == recording_bytes("ok-demo-qv100") + (
            b"cascade: No step timeline was made: kernel_mapping.json is missing beside corrected_timeline.json.\n"
        )
        assert sim.log_tail[-1].startswith("cascade: ")
