"""Making, listing and reading runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime

from cascade_server.configs.tested import TESTED_CONFIGS
from cascade_server.contract.events import RunChangedEvent, ServerSnapshotEvent, SnapshotEvent
from cascade_server.contract.models import (
    GpuConfig,
    KernelStat,
    RunCreate,
    RunDetail,
    RunEntry,
    RunSummary,
    SimSummary,
    TraceDetail,
    TraceSummary,
)
from cascade_server.contract.states import TraceState
from cascade_server.db import kernels, logs, runs, sims, traces
from cascade_server.db.connection import Database
from cascade_server.errors import ConflictError, InvalidError, NotFoundError
from cascade_server.settings import Settings

from . import replay
from .bus import SERVER_TOPIC, Bus

_TESTED = {config.name: config for config in TESTED_CONFIGS}

SAMPLE_NOTICE = "A bundled sample: real Accel-Sim results, recorded earlier."


class Runs:
    """The runs; sims' states are the lifecycle's."""

    def __init__(
        self,
        db: Database,
        bus: Bus,
        settings: Settings,
        configs: Mapping[str, GpuConfig],
        *,
        now: Callable[[], datetime],
        new_id: Callable[[str], str],
    ) -> None:
        self._db = db
        self._bus = bus
        self._settings = settings
        self._configs = configs
        self._now = now
        self._new_id = new_id

    async def create(self, body: RunCreate) -> RunDetail:
        """Store a run with its sims, all pending. Raises NotFoundError, ConflictError, InvalidError."""
        async with self._db.read() as db:
            row = await traces.get(db, body.trace_id)
        if row is None or (row.detail.sample and not self._settings.samples):
            raise NotFoundError(f"There is no trace {body.trace_id!r}.")
        trace = row.detail
        _check_trace(trace)
        for entry in body.entries:
            self._check_config(trace, entry.gpu_config)
        return await self._insert(trace, body.entries, self._new_id("run-"), sample=False)

    async def insert_sample(self, trace: TraceSummary, entry: RunEntry, run_id: str) -> RunDetail:
        """Store the run that shows the bundled sample's results."""
        return await self._insert(trace, [entry], run_id, sample=True)

    async def _insert(self, trace: TraceSummary, entries: list[RunEntry], run_id: str, *, sample: bool) -> RunDetail:
        created_at = self._now()
        chosen = {e.gpu_config: replay.choose(self._settings, trace, e.gpu_config) for e in entries}
        notice = SAMPLE_NOTICE if sample else replay.notice(list(chosen.items()))
        async with self._db.transaction() as db:
            await runs.insert(
                db,
                run_id,
                trace.id,
                created_at,
                entries,
                sample=sample,
                replay=any(r is not None for r in chosen.values()),
                notice=notice,
            )
            replicas: dict[str, int] = {}
            for entry in entries:
                recording = chosen[entry.gpu_config]
                config = self.config(entry.gpu_config)
                for _ in range(entry.count):
                    # A config named twice goes on counting: (config, replica) is unique in a run.
                    replica = replicas.get(config.name, 0)
                    replicas[config.name] = replica + 1
                    new = sims.NewSim(
                        id=self._new_id("sim-"),
                        run_id=run_id,
                        gpu_config=config.name,
                        arch=config.arch,
                        core_clock_mhz=config.core_clock_mhz,
                        replica=replica,
                        kernels_total=trace.kernel_count,
                        created_at=created_at,
                        replay_log=None if recording is None else str(recording.path),
                        replay_of=None if recording is None else recording.name,
                        stand_in=recording is not None and recording.stand_in,
                    )
                    await sims.insert(db, new)
        run = await self.get(run_id)
        summary = RunSummary.model_validate(run.model_dump(include=set(RunSummary.model_fields)))
        self._bus.publish(SERVER_TOPIC, RunChangedEvent(run=summary))
        return run

    def _check_config(self, trace: TraceSummary, name: str) -> None:
        config = self._configs.get(name)
        if config is None:
            raise InvalidError(f"There is no GPU config {name!r}.")
        if config.arch != trace.trace_gpu_arch:
            raise InvalidError(
                f"{name} is an {config.arch} config, but trace {trace.id} was taken on {trace.trace_gpu_arch}: "
                "Accel-Sim can't run the one on the other."
            )

    async def all(self) -> list[RunSummary]:
        """All runs, newest first."""
        async with self._db.read() as db:
            found = await runs.summaries(db)
        return [run for run in found if self._shown(run)]

    async def get(self, run_id: str) -> RunDetail:
        """One run with its trace and sims. Raises NotFoundError."""
        async with self._db.read() as db:
            found = await runs.summaries(db, run_id)
            if not found or not self._shown(found[0]):
                raise NotFoundError(f"There is no run {run_id!r}.")
            trace = await traces.summary(db, found[0].trace_id)
            of_run = await sims.of_run(db, run_id)
        return RunDetail(**found[0].model_dump(), trace=trace, sims=of_run)

    async def kernels(self, run_id: str) -> list[KernelStat]:
        """Every kernel the run's sims finished, without stats. Raises NotFoundError."""
        async with self._db.read() as db:
            found = await runs.summaries(db, run_id)
            if not found or not self._shown(found[0]):
                raise NotFoundError(f"There is no run {run_id!r}.")
            return await kernels.of_run(db, run_id)

    async def snapshot(self, run_id: str) -> SnapshotEvent:
        """What a stream begins with. Raises NotFoundError."""
        run = await self.get(run_id)
        async with self._db.read() as db:
            return SnapshotEvent(run=run, kernels=await kernels.of_run(db, run_id))

    async def server_snapshot(self) -> ServerSnapshotEvent:
        """What a stream of the whole server begins with."""
        shown = await self.all()
        async with self._db.read() as db:
            return ServerSnapshotEvent(runs=shown, traces=await traces.list_present(db))

    def _shown(self, run: RunSummary) -> bool:
        return self._settings.samples or not run.sample

    async def trace_of(self, trace_id: str) -> TraceDetail:
        """The trace that a run refers to, even when its folder is gone."""
        async with self._db.read() as db:
            row = await traces.get(db, trace_id, also_absent=True)
        if row is None:
            raise NotFoundError(f"There is no trace {trace_id!r}.")
        return row.detail

    def config(self, name: str) -> GpuConfig:
        """A GPU config; one that is gone has arch `unknown` and clock 0."""
        known = self._configs.get(name) or _TESTED.get(name)
        return known or GpuConfig(name=name, arch="unknown", core_clock_mhz=0)

    # -- logs --------------------------------------------------------------------------------

    async def sim(self, sim_id: str) -> SimSummary:
        """One sim. Raises NotFoundError."""
        async with self._db.read() as db:
            sim = await sims.get(db, sim_id)
        if sim is None:
            raise NotFoundError(f"There is no sim {sim_id!r}.")
        return sim

    async def log(self, sim_id: str, first_line: int, end_line: int) -> AsyncIterator[bytes]:
        """A sim's log from line `first_line` to before `end_line`, byte for byte, a frame at a time."""
        at = first_line
        while at < end_line:
            # A reader for each frame: a slow client must not hold one for minutes.
            async with self._db.read() as db:
                frame = await anext(logs.frames(db, sim_id, at), None)
                ended = await sims.column(db, sim_id, "log_lines", "log_unterminated")
            if frame is None or ended is None:
                return
            raw = frame.raw
            stop = min(frame.first_line + frame.line_count, end_line)
            if at > frame.first_line or stop < frame.first_line + frame.line_count:
                lines = raw.split(b"\n")[at - frame.first_line : stop - frame.first_line]
                raw = b"\n".join(lines) + b"\n"
            if ended["log_unterminated"] and stop == ended["log_lines"]:
                raw = raw[:-1]
            yield raw
            at = stop


def _check_trace(trace: TraceSummary) -> None:
    if trace.sample:
        raise ConflictError(
            f"Trace {trace.id} is a sample without instruction traces: it shows results, but can't be simulated."
        )
    if trace.state is not TraceState.READY:
        why = f": {trace.error}" if trace.error else ""
        raise ConflictError(f"Trace {trace.id} is not ready but {trace.state}{why}.".replace("..", "."))
