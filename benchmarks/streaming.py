"""How much memory the server needs to stream a large run: `python benchmarks/streaming.py [SIMS]`.

A real server takes in `ok-k400-rtx3070` (400 kernels, 29 MB) once for each sim, then the run's results and the sims'
logs are downloaded whole, and its kernels and its comparison listed, while the server's resident memory is sampled.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parent.parent))

from cascade_server.contract.client import CascadeClient
from cascade_server.contract.models import Heartbeat, RunCreate, RunDetail, RunEntry
from cascade_server.contract.states import SimState
from tests.processes import ServerProcess, server_process
from tests.recordings import recording_lines

LINES = recording_lines("ok-k400-rtx3070")
CHUNK = 4000


async def fill(server: ServerProcess, sims: int) -> RunDetail:
    async with server.client() as client:
        entries = [RunEntry(gpu_config="SM7_QV100", count=sims)]
        run = await client.create_run(RunCreate(trace_id="demo-sm70", entries=entries))
        for sim in run.sims:
            await client.heartbeat(sim.id, Heartbeat(state=SimState.RUNNING))
            for at in range(0, len(LINES), CHUNK):
                await client.post_logs(sim.id, at, LINES[at : at + CHUNK])
            await client.heartbeat(sim.id, Heartbeat(state=SimState.SUCCEEDED, exit_code=0))
        return run


async def size(chunks: AsyncIterator[bytes]) -> int:
    return sum([len(chunk) async for chunk in chunks])


class Memory:
    """The server's resident memory: where it stood, and how far it rose since."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self.start = self.peak = process.memory_info().rss

    async def sample(self) -> None:
        while True:
            self.peak = max(self.peak, self._process.memory_info().rss)
            await asyncio.sleep(0.02)


async def measure(process: psutil.Process, what: str, work: Awaitable[int]) -> None:
    memory = Memory(process)
    sampling = asyncio.create_task(memory.sample())
    began = time.perf_counter()
    amount = await work
    seconds = time.perf_counter() - began
    sampling.cancel()
    grown = (memory.peak - memory.start) / 1e6
    print(f"| {what} | {amount / 1e6:.1f} MB | {seconds:.2f} s | +{grown:.0f} MB over {memory.start / 1e6:.0f} MB |")


async def kernels(client: CascadeClient, run: RunDetail) -> int:
    return sum(len(kernel.model_dump_json()) for kernel in await client.run_kernels(run.id))


async def main(sims: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with server_process(Path(folder), launcher="none") as server, server.client() as client:
            assert server.process is not None
            process = psutil.Process(server.process.pid)
            began = time.perf_counter()
            run = await fill(server, sims)
            seconds = time.perf_counter() - began
            total = sim_bytes() * sims / 1e6
            print(f"{sims} sims x 400 kernels taken in: {total:.0f} MB at {total / seconds:.0f} MB/s, one sender\n")
            print("| what | amount | time | server's memory |\n| --- | --- | --- | --- |")
            await measure(process, "kernels of the run", kernels(client, run))
            await measure(process, "results of the run", size(client.run_results(run.id)))
            await measure(process, "log of one sim", size(client.sim_log(run.sims[0].id)))
            await measure(process, "Perfetto file", size(client.run_perfetto(run.id)))


def sim_bytes() -> int:
    return sum(len(line) + 1 for line in LINES)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 8))
