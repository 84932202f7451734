"""How well simulated kernel times agree with real hardware, per config.

The figures are those that Accel-Sim's maintainers publish (mean absolute error, Pearson correlation, how many kernels
are too fast, too slow, or within 1 %), so that they can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean

from cascade_server.contract.analysis import AccuracyRow, ConfigAccuracy, RunAccuracy, UnmatchedKernel
from cascade_server.contract.models import KernelStat, RunDetail
from cascade_server.traces.real_timing import RealKernel

from .comparison import Column, columns, median_ns, row_name

WITHIN_PCT = 1.0
WORST = 10

REAL_ONLY = "Real timing has this kernel, but no sim of this config has finished it."
NO_SIM_TIME = "The sims that finished this kernel gave no time for it."
CUT_SHORT = "A cycle or instruction limit cut this kernel short in every sim that reached it."
CONCURRENT = "Its block names no single kernel (several ran at a time), so its time is not one kernel's own."
SIM_ONLY = "The simulator finished this kernel, but real timing ends before it."
NO_REAL_TIME = "Real timing lists this kernel without a usable duration."
REAL_ZERO = "The real duration is 0, so there is no relative error."
OUT_OF_RANGE = "The real duration is too small for a relative error that is a number."


def assess(run: RunDetail, kernels: Iterable[KernelStat], real: Sequence[RealKernel] | None) -> RunAccuracy:
    """The run's accuracy from its kernels (by config and replica, without stats) and the trace's real timing.

    Simulated times are the Comparison's medians, except that blocks of several concurrent kernels are left out.
    Without real timing there is nothing to assess.
    """
    if real is None:
        return RunAccuracy(has_real_timing=False, configs=[])
    by_config = columns(run, kernels)
    return RunAccuracy(has_real_timing=True, configs=[_assess_config(column, by_config, real) for column in by_config])


def _assess_config(column: Column, by_config: Sequence[Column], real: Sequence[RealKernel]) -> ConfigAccuracy:
    matched: list[AccuracyRow] = []
    unmatched: list[UnmatchedKernel] = []
    for index in range(max(len(column.kernels), len(real))):
        found = column.at(index)
        real_ns = real[index].duration_ns if index < len(real) else None
        sim_ns = median_ns(k for k in found if not _concurrent(k))
        name = row_name(index, by_config, real)
        error = _error_pct(real_ns, sim_ns)
        if real_ns is not None and sim_ns is not None and error is not None:
            row = AccuracyRow(kernel_index=index, kernel_name=name, real_ns=real_ns, sim_ns=sim_ns, error_pct=error)
            matched.append(row)
            continue
        reason = _reason(found, sim_ns, real_ns, listed=index < len(real))
        unmatched.append(
            UnmatchedKernel(kernel_index=index, kernel_name=name, real_ns=real_ns, sim_ns=sim_ns, reason=reason)
        )
    return _figures(column.gpu_config, matched, unmatched)


def _figures(gpu_config: str, matched: list[AccuracyRow], unmatched: list[UnmatchedKernel]) -> ConfigAccuracy:
    errors = [row.error_pct for row in matched]
    return ConfigAccuracy(
        gpu_config=gpu_config,
        matched=len(matched),
        mape_pct=_mean([abs(error) for error in errors]),
        bias_pct=_mean(errors),
        pearson=pearson([row.real_ns for row in matched], [row.sim_ns for row in matched]),
        under=sum(error < -WITHIN_PCT for error in errors),
        over=sum(error > WITHIN_PCT for error in errors),
        within_1pct=sum(abs(error) <= WITHIN_PCT for error in errors),
        worst=sorted(matched, key=lambda row: (-abs(row.error_pct), row.kernel_index))[:WORST],
        unmatched=unmatched,
    )


def _error_pct(real_ns: float | None, sim_ns: float | None) -> float | None:
    if real_ns is None or sim_ns is None or real_ns <= 0:
        return None
    error = (sim_ns - real_ns) / real_ns * 100
    return error if math.isfinite(error) else None


def _reason(found: Sequence[KernelStat], sim_ns: float | None, real_ns: float | None, *, listed: bool) -> str:
    if not listed:
        return SIM_ONLY
    if not found:
        return REAL_ONLY
    if sim_ns is None:
        whole = [k for k in found if not k.partial]
        if not whole:
            return CUT_SHORT
        return CONCURRENT if any(_concurrent(k) and k.sim_time_ns is not None for k in whole) else NO_SIM_TIME
    if real_ns is None:
        return NO_REAL_TIME
    return REAL_ZERO if real_ns == 0 else OUT_OF_RANGE


def _concurrent(kernel: KernelStat) -> bool:
    """Whether the block printed not one kernel's uid: with several at a time its cycles count from the block before."""
    return kernel.kernel_launch_uid is None or kernel.name_inferred


def _mean(values: Sequence[float]) -> float | None:
    if not values:
        return None
    # Divided first: the sum of finite numbers may be infinite.
    return math.fsum(value / len(values) for value in values)


def pearson(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Pearson correlation of as many finite xs and ys; None for fewer than two pairs or where one side doesn't vary."""
    if len(xs) < 2:
        return None
    dx, dy = _deviations(xs), _deviations(ys)
    sxx, syy = math.fsum(d * d for d in dx), math.fsum(d * d for d in dy)
    if sxx == 0 or syy == 0:
        return None
    r = math.fsum(a * b for a, b in zip(dx, dy, strict=True)) / (math.sqrt(sxx) * math.sqrt(syy))
    return max(-1.0, min(1.0, r))


def _deviations(values: Sequence[float]) -> list[float]:
    """Deviations from the mean, scaled to at most 1 so that no square overflows or vanishes; correlation keeps."""
    if min(values) == max(values):
        # The mean's rounding would make a tiny deviation out of none.
        return [0.0] * len(values)
    largest = max(abs(value) for value in values)
    scaled = [value / largest for value in values]
    mean = fmean(scaled)
    spread = max(abs(value - mean) for value in scaled)
    return [(value - mean) / spread for value in scaled] if spread else [0.0] * len(values)
