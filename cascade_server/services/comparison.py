"""A run's kernels side by side: simulated on each config, and real where the trace has real timing.

Kernels are matched by order: row i is the i-th kernel that each sim finished and the i-th row of real timing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

from cascade_server.contract.models import Comparison, ComparisonRow, KernelStat, RunDetail
from cascade_server.traces.real_timing import RealKernel


@dataclass(slots=True)
class Column:
    """One config's kernels: `kernels[i]` are those that its replicas finished as their i-th, by replica."""

    gpu_config: str
    kernels: list[list[KernelStat]] = field(default_factory=list)

    def at(self, index: int) -> list[KernelStat]:
        """The replicas' kernels at an index, none beyond the end."""
        return self.kernels[index] if index < len(self.kernels) else []


def columns(run: RunDetail, kernels: Iterable[KernelStat]) -> list[Column]:
    """The run's kernels by config, in entry order without repeats; `kernels` are of this run, by config and replica."""
    found = {entry.gpu_config: Column(entry.gpu_config) for entry in run.entries}
    config_of = {sim.id: sim.gpu_config for sim in run.sims}
    for kernel in kernels:
        config = config_of.get(kernel.sim_id)
        if config is None:
            continue
        column = found[config].kernels
        while len(column) <= kernel.kernel_index:
            column.append([])
        column[kernel.kernel_index].append(kernel)
    return list(found.values())


def median_ns(kernels: Iterable[KernelStat]) -> float | None:
    """Median simulated time in ns of the whole kernels among these; None when none has a time.

    A kernel that a cycle or instruction limit cut short says nothing about the kernel's time.
    """
    times = [k.sim_time_ns for k in kernels if k.sim_time_ns is not None and not k.partial]
    return median(times) if times else None


def compare(run: RunDetail, kernels: Iterable[KernelStat], real: Sequence[RealKernel] | None) -> Comparison:
    """The Comparison of CONTRACT.md: real_ns from `real`, sim_ns the median over a config's replicas, failed ones too.

    As many rows as the longest of real timing and sims has kernels. A name is real timing's, else that of the first
    sim (by config and replica) that finished the kernel.
    """
    by_config = columns(run, kernels)
    length = max([len(real or ()), *(len(column.kernels) for column in by_config)])
    rows = [
        ComparisonRow(
            kernel_index=index,
            kernel_name=row_name(index, by_config, real),
            real_ns=real[index].duration_ns if real and index < len(real) else None,
            sim_ns={column.gpu_config: median_ns(column.at(index)) for column in by_config},
        )
        for index in range(length)
    ]
    return Comparison(has_real_timing=real is not None, configs=[c.gpu_config for c in by_config], rows=rows)


def row_name(index: int, by_config: Sequence[Column], real: Sequence[RealKernel] | None) -> str:
    """The name of row `index`; one cut short gives its name only when no other does."""
    if real and index < len(real) and real[index].name:
        return real[index].name
    # A run's sims are ordered by config name, not by entry.
    candidates = [k for column in sorted(by_config, key=lambda c: c.gpu_config) for k in column.at(index)]
    candidates.sort(key=lambda k: (k.partial, not k.kernel_name))
    return candidates[0].kernel_name if candidates else ""
