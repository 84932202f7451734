"""What a run's kernels say: comparison, accuracy, trace for viewers, counters.

The figures are made by pure functions in `comparison`, `accuracy`, `perfetto`, `counters` and `finished`;
here the database and the trace's folder are read.
"""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import aiosqlite

from cascade_server.contract.analysis import KernelDetail, RunAccuracy
from cascade_server.contract.models import Comparison, KernelStat, RunDetail, StatValue
from cascade_server.db import blocks, kernels, logs, sims, traces
from cascade_server.db.blocks import BlockPlace
from cascade_server.db.connection import Database
from cascade_server.errors import NotFoundError
from cascade_server.simlog.parser import block_stats
from cascade_server.traces.real_timing import FILE_NAME, RealKernel, read_real_timing

from .accuracy import assess
from .comparison import compare
from .counters import NOTHING_BEFORE, Stats, counters
from .finished import Finished, finished_kernels, marked_lines
from .perfetto import chrome_trace
from .runs import Runs

MAX_BACK = 1024
"""So many blocks back the last one of the same stream is looked for; beyond, shares per stream are not known."""

_KEPT_TIMINGS = 8


class Analysis:
    """Answers from stored kernels and logs; changes nothing."""

    def __init__(self, db: Database, runs: Runs) -> None:
        self._db = db
        self._runs = runs
        self._timings: dict[Path, tuple[tuple[int, int], tuple[RealKernel, ...] | None]] = {}

    async def comparison(self, run_id: str) -> Comparison:
        """The run's kernels side by side. Raises NotFoundError."""
        run, found = await self._run(run_id)
        return compare(run, found, await self.real_timing(run.trace_id))

    async def accuracy(self, run_id: str) -> RunAccuracy:
        """The run against real hardware. Raises NotFoundError."""
        run, found = await self._run(run_id)
        return assess(run, found, await self.real_timing(run.trace_id))

    async def perfetto(self, run: RunDetail) -> AsyncIterator[str]:
        """The run as a Chrome trace, in pieces of JSON text."""
        clocks: dict[str, float] = {}
        async with self._db.read() as db:
            found = await kernels.of_run(db, run.id)
            for sim in run.sims:
                if sim.gpu_config not in clocks and (row := await sims.column(db, sim.id, "core_clock_mhz")):
                    clocks[sim.gpu_config] = row["core_clock_mhz"]
        for piece in chrome_trace(run, clocks, found):
            yield piece

    async def real_timing(self, trace_id: str) -> tuple[RealKernel, ...] | None:
        """A trace's real timing by kernel_id; None when it has none, none that can be read, or the folder is gone.

        The last few are kept until their file changes, so that a broken one is complained of once.
        """
        async with self._db.read() as db:
            row = await traces.get(db, trace_id, also_absent=True)
        if row is None:
            return None
        folder = Path(row.path)
        seen = await asyncio.to_thread(_seen, folder / FILE_NAME)
        if seen is None:
            self._timings.pop(folder, None)
            return None
        kept = self._timings.get(folder)
        if kept is None or kept[0] != seen:
            kept = seen, await asyncio.to_thread(read_real_timing, folder)
            if len(self._timings) >= _KEPT_TIMINGS:
                self._timings.pop(next(iter(self._timings)))
            self._timings[folder] = kept
        return kept[1]

    async def kernel(self, sim_id: str, kernel_index: int) -> KernelDetail:
        """One kernel with all its counters. Raises NotFoundError for an unknown sim or a kernel it hasn't finished."""
        await self._runs.sim(sim_id)
        async with self._db.read() as db:
            found = await kernels.one(db, sim_id, kernel_index)
            back = await blocks.back_from(db, sim_id, kernel_index, MAX_BACK)
            if found is None or not back:
                raise NotFoundError(f"Sim {sim_id} has not finished a kernel {kernel_index}.")
            head = found[0]
            head.stats = await _stats(db, sim_id, back[0])
            finished = await _finished(db, sim_id, back)
            overlapped = finished is not None and finished.overlapped
            before, same_stream = await _before(db, sim_id, head.stats, back)
        return KernelDetail(
            stat=head,
            counters=counters(head.stats, before, same_stream, overlapped=overlapped),
            finished_uid=finished.uid if finished else None,
            finished_name=finished.name if finished else None,
            own_cycles=finished.own_cycles if finished else None,
            overlapped=overlapped,
            derived=finished is not None and finished.uid is not None and not _printed(head, finished),
        )

    async def _run(self, run_id: str) -> tuple[RunDetail, list[KernelStat]]:
        run = await self._runs.get(run_id)
        async with self._db.read() as db:
            return run, await kernels.of_run(db, run_id)


def _seen(path: Path) -> tuple[int, int] | None:
    """When a file changed (ns) and its size; None when there is no regular file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size) if stat.S_ISREG(status.st_mode) else None


def _printed(kernel: KernelStat, finished: Finished) -> bool:
    """Whether the block itself prints what was derived, as it does for kernels that run one at a time."""
    return (
        not kernel.name_inferred
        and kernel.kernel_launch_uid == finished.uid
        and finished.own_cycles in (None, kernel.gpu_sim_cycle)
    )


async def _stats(db: aiosqlite.Connection, sim_id: str, place: BlockPlace) -> dict[str, StatValue]:
    lines = await logs.lines(db, sim_id, place.first_line, place.end_line)
    return block_stats([line.decode("utf-8", "replace") for line in lines])


async def _before(
    db: aiosqlite.Connection, sim_id: str, stats: Stats, back: Sequence[BlockPlace]
) -> tuple[Stats | None, Stats | None]:
    """The statistics of the block before `back[0]`, and of the last one on its stream; see `counters`."""
    stream = back[0].stream_id
    same = next((at for at, place in enumerate(back[1:], 1) if stream is not None and place.stream_id == stream), None)
    before = await _base(db, sim_id, stats, back, 1)
    if same == 1:
        return before, before
    if same is None:
        from_start = stream is not None and back[-1].kernel_index == 0
        return before, await _base(db, sim_id, stats, back, len(back)) if from_start else None
    return before, await _base(db, sim_id, stats, back, same)


async def _base(
    db: aiosqlite.Connection, sim_id: str, stats: Stats, back: Sequence[BlockPlace], at: int
) -> Stats | None:
    """The statistics of `back[at]`, NOTHING_BEFORE when that is before the first block.

    None when the cycles in between don't add up: a block between them is missing (its lines were broken), and
    differences would give its share to this kernel.
    """
    old = NOTHING_BEFORE if at == len(back) else await _stats(db, sim_id, back[at])
    cycles = [place.gpu_sim_cycle for place in back[:at]]
    now, then = stats.get("gpu_tot_sim_cycle"), old.get("gpu_tot_sim_cycle", None if old else 0)
    if not isinstance(now, int) or not isinstance(then, int):
        return None
    return old if sum(c for c in cycles if c is not None) == now - then and None not in cycles else None


async def _finished(db: aiosqlite.Connection, sim_id: str, back: Sequence[BlockPlace]) -> Finished | None:
    """The kernel that the block `back[0]` is of.

    Kernels that run one at a time are launched behind the block before. Where several ran at some time, a kernel may
    have been launched anywhere before: then the log is read from its start, a frame at a time.
    """
    alone = not await blocks.any_without_uid(db, sim_id, back[0].kernel_index)
    start = back[1].first_line if alone and len(back) > 1 else 0
    end = back[0].end_line
    marked: list[str] = []
    async for frame in logs.frames(db, sim_id, start, end):
        raw = frame.raw
        if frame.first_line < start or frame.first_line + frame.line_count > end:
            lines = raw.split(b"\n")[max(0, start - frame.first_line) : end - frame.first_line]
            raw = b"\n".join(lines)
        marked.extend(marked_lines(raw))
    found = finished_kernels(marked)
    return found[-1] if found else None
