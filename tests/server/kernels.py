"""Runs and kernels as the services get them, for tests of pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from cascade_server.contract.models import KernelStat, RunDetail, RunEntry, SimSummary, TraceSummary
from cascade_server.contract.states import RunState, SimState, TraceState

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def make_run(*entries: tuple[str, int]) -> RunDetail:
    """A finished run with entries (config, count); sims `sim-A-0`, `sim-A-1`, … of config A."""
    counts: dict[str, int] = {}
    for config, count in entries:
        counts[config] = counts.get(config, 0) + count
    sims = [
        SimSummary(
            id=f"sim-{config}-{replica}",
            run_id="run-1",
            gpu_config=config,
            replica=replica,
            state=SimState.SUCCEEDED,
            created_at=NOW,
        )
        for config in sorted(counts)
        for replica in range(counts[config])
    ]
    return RunDetail(
        id="run-1",
        trace_id="t",
        created_at=NOW,
        state=RunState.SUCCEEDED,
        entries=[RunEntry(gpu_config=config, count=count) for config, count in entries],
        sim_counts={SimState.SUCCEEDED: len(sims)},
        trace=TraceSummary(id="t", state=TraceState.READY, created_at=NOW, updated_at=NOW),
        sims=sims,
    )


def make_kernel(sim_id: str, index: int, time_ns: float | None, name: str = "", **values: Any) -> KernelStat:
    """A kernel of a sim, by default named by its index and with a uid of its own."""
    given: dict[str, Any] = {"kernel_launch_uid": index + 1, "gpu_sim_cycle": 1, "gpu_sim_insn": 2, "gpu_ipc": 2.0}
    return KernelStat(
        sim_id=sim_id,
        kernel_index=index,
        kernel_name=name or f"_Z1{chr(97 + index % 26)}v",
        sim_time_ns=time_ns,
        **(given | values),
    )


def make_kernels(sim_id: str, times_ns: Sequence[float | None], **values: Any) -> list[KernelStat]:
    """A sim's kernels, one for each time."""
    return [make_kernel(sim_id, index, time, **values) for index, time in enumerate(times_ns)]
