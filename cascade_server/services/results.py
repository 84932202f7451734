"""Results as JSON, written piece by piece: a run of hundreds of kernels has hundreds of megabytes of statistics."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator

from pydantic import BaseModel

from cascade_server.contract.models import (
    Comparison,
    GpuConfig,
    KernelStat,
    RunDetail,
    RunSummary,
    SimSummary,
    TraceDetail,
)
from cascade_server.db import kernels, logs
from cascade_server.db.connection import Database
from cascade_server.simlog.parser import block_stats


async def full_stats(db: Database, sim_id: str) -> AsyncIterator[KernelStat]:
    """A sim's kernels in order with full statistics, one at a time; each frame of the log is read once."""
    async with db.read() as connection:
        rows = deque(await kernels.with_blocks(connection, sim_id))
    lines: list[str] = []
    first = 0
    while rows:
        stat, begin, count = rows[0]
        if begin + count <= first + len(lines):
            rows.popleft()
            stat.stats = block_stats(lines[begin - first : begin - first + count])
            yield stat
            continue
        # Keep what the next block needs of the lines at hand, and read on.
        keep = max(0, begin - first)
        at = first + len(lines)
        lines, first = lines[keep:], min(first + keep, at)
        if not lines:
            first = at = begin
        # A reader for each frame: a slow client must not hold one for minutes.
        async with db.read() as connection:
            frame = await anext(logs.frames(connection, sim_id, at), None)
        if frame is None:
            return
        text = frame.raw.decode("utf-8", "replace").split("\n")[:-1]
        lines += text[at - frame.first_line :]


async def sim_results(db: Database, sim: SimSummary, trace_id: str, gpu_config: GpuConfig) -> AsyncIterator[str]:
    """A SimResults as pieces of JSON text."""
    yield f'{{"sim":{_json(sim)},"trace_id":{_string(trace_id)},"gpu_config":{_json(gpu_config)},"kernels":['
    comma = ""
    async for stat in full_stats(db, sim.id):
        yield comma + _json(stat)
        comma = ","
    yield f'],"totals":{_json(sim.latest)}}}'


async def run_results(
    db: Database, run: RunDetail, trace: TraceDetail, configs: dict[str, GpuConfig], comparison: Comparison
) -> AsyncIterator[str]:
    """A RunResults as pieces of JSON text; `configs` has an entry for each sim's config."""
    summary = RunSummary.model_validate(run.model_dump(include=set(RunSummary.model_fields)))
    yield f'{{"run":{_json(summary)},"trace":{_json(trace)},"sims":['
    for number, sim in enumerate(run.sims):
        if number:
            yield ","
        async for piece in sim_results(db, sim, run.trace_id, configs[sim.gpu_config]):
            yield piece
    yield f'],"comparison":{_json(comparison)}}}'


def _json(model: BaseModel) -> str:
    return model.model_dump_json()


def _string(text: str) -> str:
    return json.dumps(text)
