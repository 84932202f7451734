"""Makes the sample run: a recorded simulation of the sample trace, taken in as a worker would send it."""

from __future__ import annotations

import asyncio
import hashlib
import lzma
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from cascade_server import samples
from cascade_server.contract.models import Heartbeat, LogChunk, RunEntry
from cascade_server.contract.states import SimState
from cascade_server.db import runs, traces

from .core import Core

CHUNK_LINES = 2000
SAMPLE_RUN_ID = "run-" + hashlib.sha256(samples.SAMPLE_TRACE.encode()).hexdigest()[:12]


async def seed_sample_run(core: Core) -> None:
    """Make the sample run if it is not there, and finish it if a stop cut it off; harmless to repeat."""
    ((_, config),) = [key for key in samples.TRUE_RECORDINGS if key[0] == samples.SAMPLE_TRACE]
    if not core.settings.samples:
        return
    async with core.db.read() as db:
        row = await traces.get(db, samples.SAMPLE_TRACE)
        made = await runs.exists(db, SAMPLE_RUN_ID)
    if row is None or not row.detail.sample:
        return
    if not made:
        await core.runs.insert_sample(row.detail, RunEntry(gpu_config=config, count=1), SAMPLE_RUN_ID)
    run = await core.runs.get(SAMPLE_RUN_ID)
    sim = run.sims[0]
    if sim.state.is_finished:
        return
    await core.lifecycle.heartbeat(sim.id, Heartbeat(state=SimState.RUNNING))
    seq = 0
    path = samples.recording_path(samples.TRUE_RECORDINGS[samples.SAMPLE_TRACE, config])
    for lines in await asyncio.to_thread(lambda: list(_chunks(path))):
        seq = await core.ingest.add(sim.id, LogChunk(seq=seq, lines=lines))
    await core.lifecycle.heartbeat(sim.id, Heartbeat(state=SimState.SUCCEEDED, exit_code=0))


def _chunks(path: Path) -> Iterator[list[str]]:
    with lzma.open(path, "rt", encoding="utf-8", newline="\n") as file:
        lines = (line.removesuffix("\n") for line in file)
        while chunk := list(islice(lines, CHUNK_LINES)):
            yield chunk
