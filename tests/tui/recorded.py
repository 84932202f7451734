"""What a server would tell, made from recordings without one: traces, runs, sims, kernels and logs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path

from cascade_server.contract.events import SnapshotEvent
from cascade_server.contract.models import (
    GpuConfig,
    Health,
    KernelLaunch,
    KernelStat,
    RunDetail,
    RunEntry,
    RunSummary,
    SimMetrics,
    SimSummary,
    TraceDetail,
    TraceSummary,
)
from cascade_server.contract.states import SimState, TraceState, run_state
from cascade_server.simlog.parser import KernelBlock, LogParser
from cascade_tui.store import Store
from tests.recordings import recording_lines

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
RECORDED = {"SM7_QV100": "ok-demo-qv100", "SM7_GV100": "ok-demo-gv100", "SM7_TITANV": "ok-demo-titanv"}
CONFIGS = (
    GpuConfig(name="SM6_TITANX", arch="sm_60", core_clock_mhz=1417),
    GpuConfig(name="SM75_RTX2060", arch="sm_75", core_clock_mhz=1365),
    GpuConfig(name="SM7_GV100", arch="sm_70", core_clock_mhz=1200),
    GpuConfig(name="SM7_QV100", arch="sm_70", core_clock_mhz=1132),
    GpuConfig(name="SM7_TITANV", arch="sm_70", core_clock_mhz=1200),
    GpuConfig(name="SM80_A100", arch="sm_80", core_clock_mhz=1410),
    GpuConfig(name="SM86_RTX3070", arch="sm_86", core_clock_mhz=1132),
    GpuConfig(name="SM90_H100", arch="sm_90", core_clock_mhz=1755),
)
CLOCKS = {config.name: config.core_clock_mhz for config in CONFIGS}
SAMPLES = Path(__file__).parents[2] / "cascade_server" / "samples" / "traces"


def trace_of(folder: str, *, demo: bool = False, sample: bool = False) -> TraceDetail:
    """A bundled trace as a server tells it."""
    metadata = json.loads((SAMPLES / folder / "metadata.json").read_text())
    rows = next((SAMPLES / folder / "traces").glob("stats_ctx_*")).read_text().splitlines()[1:]
    made = NOW - timedelta(minutes=10)
    return TraceDetail(
        id=folder,
        state=TraceState.READY,
        created_at=made,
        updated_at=made,
        model=metadata.get("model"),
        layers=metadata.get("layers", []),
        source_gpu=metadata.get("gpu"),
        trace_gpu_arch=metadata["trace_gpu_arch"],
        suggested_sim_config=metadata.get("suggested_sim_config"),
        sample_sim_configs=metadata.get("sample_sim_configs", []),
        kernel_count=len(rows),
        bytes=77_000,
        demo=demo,
        sample=sample,
        metadata=metadata,
        kernels=[_launch(number, row) for number, row in enumerate(rows, 1)],
    )


def _launch(number: int, row: str) -> KernelLaunch:
    cells = [cell.strip() for cell in row.split(",")]
    grid, block = [int(c) for c in cells[2:5]], [int(c) for c in cells[6:9]]
    return KernelLaunch(
        kernel_id=number,
        name=cells[1],
        grid=(grid[0], grid[1], grid[2]),
        block=(block[0], block[1], block[2]),
        instructions=int(cells[10]),
    )


def cut(recording: str, kernels: int, blocks: int) -> list[str]:
    """The lines of a recording up to `blocks` issued blocks of the kernel after the first `kernels`."""
    launched = issued = 0
    out: list[str] = []
    for line in recording_lines(recording):
        launched += line.startswith("launching kernel name:")
        issued += launched == kernels + 1 and line.startswith("thread block =")
        out.append(line)
        if launched == kernels + 1 and issued == blocks:
            break
    return out


@dataclass
class Sim:
    """A sim at some moment, with all it sent."""

    summary: SimSummary
    kernels: list[KernelStat] = field(default_factory=list)
    lines: Sequence[str] = ()


@lru_cache(maxsize=32)
def _parsed(config: str, kernels: int, blocks: int) -> tuple[LogParser, list[KernelBlock], list[str]]:
    lines = cut(RECORDED[config], kernels, blocks) if kernels < 12 else recording_lines(RECORDED[config])
    parser = LogParser()
    return parser, [event for event in parser.feed(lines) if isinstance(event, KernelBlock)], lines


def sim_at(
    run_id: str,
    config: str,
    replica: int,
    state: SimState,
    *,
    kernels: int = 0,
    blocks: int = 0,
    started: float | None = None,
    took: float | None = None,
    error: str | None = None,
    exit_code: int | None = None,
) -> Sim:
    """A sim after `kernels` kernels and `blocks` blocks of the next; times in seconds before `NOW`, and long."""
    sim_id = f"sim-{list(RECORDED).index(config):06x}{replica:06x}"
    begun = NOW - timedelta(seconds=started) if started is not None else None
    base = SimSummary(
        id=sim_id,
        run_id=run_id,
        gpu_config=config,
        replica=replica,
        state=state,
        created_at=NOW - timedelta(seconds=70),
        kernels_total=12,
        replay_of=RECORDED[config],
    )
    if begun is None:
        return Sim(base)
    parser, done, lines = _parsed(config, kernels, blocks)
    running = state in (SimState.RUNNING, SimState.LOST)
    summary = base.model_copy(
        update={
            "error": error,
            "exit_code": exit_code,
            "launcher_ref": f"pid {4100 + replica}",
            "started_at": begun,
            "finished_at": begun + timedelta(seconds=took) if took is not None else None,
            "last_heartbeat_at": NOW - timedelta(seconds=1),
            "kernels_done": parser.kernels_done,
            "current_kernel": parser.current_kernel,
            "latest": _metrics(parser),
            "log_tail": lines[-20:],
            "log_lines": len(lines),
            "blocks_issued": parser.blocks_issued if running else None,
            "blocks_total": parser.blocks_total if running else None,
        }
    )
    return Sim(summary, [_stat(sim_id, config, block) for block in done], lines)


def _metrics(parser: LogParser) -> SimMetrics:
    totals = parser.metrics
    return SimMetrics(
        gpu_tot_sim_cycle=totals.gpu_tot_sim_cycle,
        gpu_tot_sim_insn=totals.gpu_tot_sim_insn,
        gpu_tot_ipc=totals.gpu_tot_ipc,
        sim_rate_ips=totals.sim_rate_ips,
    )


def _stat(sim_id: str, config: str, block: KernelBlock) -> KernelStat:
    cycles = block.gpu_sim_cycle
    return KernelStat(
        sim_id=sim_id,
        kernel_index=block.kernel_index,
        kernel_name=block.kernel_name,
        kernel_launch_uid=block.kernel_launch_uid,
        gpu_sim_cycle=cycles,
        gpu_sim_insn=block.gpu_sim_insn,
        gpu_ipc=block.gpu_ipc,
        sim_time_ns=cycles / CLOCKS[config] * 1000 if cycles is not None else None,
        partial=block.partial,
    )


def run_of(
    run_id: str, trace: TraceDetail, sims: Iterable[Sim], *, notice: str | None = None, ago: float = 70
) -> RunDetail:
    """A run of these sims."""
    summaries = sorted((sim.summary for sim in sims), key=lambda sim: (sim.gpu_config, sim.replica))
    counts: dict[SimState, int] = {}
    configs: dict[str, int] = {}
    for sim in summaries:
        counts[sim.state] = counts.get(sim.state, 0) + 1
        configs[sim.gpu_config] = configs.get(sim.gpu_config, 0) + 1
    return RunDetail(
        id=run_id,
        trace_id=trace.id,
        created_at=NOW - timedelta(seconds=ago),
        state=run_state(counts),
        entries=[RunEntry(gpu_config=config, count=configs[config]) for config in RECORDED if config in configs],
        sim_counts=counts,
        replay=True,
        notice=notice,
        trace=TraceSummary.model_validate(trace.model_dump()),
        sims=summaries,
    )


def fill(store: Store, runs: Sequence[tuple[RunDetail, Sequence[Sim]]] = ()) -> Store:
    """Put the bundled traces and these runs into a store, as if a server had told them."""
    demo = trace_of("demo-sm70", demo=True)
    sample = trace_of("sample-layers4-sm80", sample=True)
    store.health = Health(auth=True, replay=True)
    store.configs = list(CONFIGS)
    summaries = [TraceSummary.model_validate(trace.model_dump()) for trace in (demo, sample)]
    store.set_lists(summaries, [RunSummary.model_validate(run.model_dump()) for run, _ in runs])
    store.set_detail(demo)
    store.set_detail(sample)
    for run, sims in runs:
        data = store.run(run.id)
        data.apply(SnapshotEvent(run=run, kernels=[stat for sim in sims for stat in sim.kernels]))
        for sim in sims:
            data.log(sim.summary.id).merge(0, list(sim.lines))
    return store


RUN_ID = "run-4be1c09a77e2"
FAILURE = "The simulator was killed by signal 9 (most likely out of memory) in kernel 6, mlp_gemm<1>."
REPLAYED = "Replayed, not simulated now: these are recorded Accel-Sim results of this very trace on these configs."


def mid_run() -> tuple[RunDetail, list[Sim]]:
    """Three configs × 2 in the middle: one done, four at work, one waiting."""
    running = SimState.RUNNING
    sims = [
        sim_at(RUN_ID, "SM7_TITANV", 0, SimState.SUCCEEDED, kernels=12, started=66, took=31),
        sim_at(RUN_ID, "SM7_GV100", 0, running, kernels=7, blocks=24, started=66),
        sim_at(RUN_ID, "SM7_QV100", 0, running, kernels=8, blocks=9, started=66),
        sim_at(RUN_ID, "SM7_TITANV", 1, running, kernels=9, blocks=27, started=34),
        sim_at(RUN_ID, "SM7_GV100", 1, running, kernels=4, blocks=50, started=32),
        sim_at(RUN_ID, "SM7_QV100", 1, SimState.PENDING),
    ]
    return run_of(RUN_ID, trace_of("demo-sm70", demo=True), sims, notice=REPLAYED), sims


def finished_run() -> tuple[RunDetail, list[Sim]]:
    """Three configs × 2 at the end, one sim failed."""
    sims = [
        sim_at(RUN_ID, config, replica, SimState.SUCCEEDED, kernels=12, started=66, took=31 + replica, exit_code=0)
        for config in RECORDED
        for replica in (0, 1)
        if (config, replica) != ("SM7_GV100", 1)
    ]
    failed = SimState.FAILED
    sims.append(
        sim_at(RUN_ID, "SM7_GV100", 1, failed, kernels=5, blocks=12, started=60, took=18, error=FAILURE, exit_code=-9)
    )
    return run_of(RUN_ID, trace_of("demo-sm70", demo=True), sims, notice=REPLAYED), sims
