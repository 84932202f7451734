"""The types of what is made out of a run's kernels: accuracy, and one kernel's counters. All are additions."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from .models import KernelStat, Model, StatValue


class AccuracyRow(Model):
    """One kernel's simulated time against the real one."""

    kernel_index: int
    kernel_name: str
    real_ns: float
    sim_ns: float
    error_pct: float = Field(description="(sim - real) / real × 100.")


class UnmatchedKernel(Model):
    """A kernel that stands on one side only, or can't be compared."""

    kernel_index: int
    kernel_name: str
    real_ns: float | None = None
    sim_ns: float | None = None
    reason: str = Field(description="One sentence.")


class ConfigAccuracy(Model):
    """How well one config's simulated times agree with real hardware; figures are null where undefined."""

    gpu_config: str
    matched: int = Field(description="Kernels with both times, of which the figures speak.")
    mape_pct: float | None = Field(description="Mean of |error_pct| over the matched kernels.")
    bias_pct: float | None = Field(description="Mean of error_pct: above 0 the simulator is slow.")
    pearson: float | None = Field(description="Pearson correlation of real and simulated times.")
    under: int = Field(description="Kernels more than 1 % too fast.")
    over: int = Field(description="Kernels more than 1 % too slow.")
    within_1pct: int
    worst: list[AccuracyRow] = Field(description="At most ten, largest |error_pct| first.")
    unmatched: list[UnmatchedKernel]


class RunAccuracy(Model):
    """Addition: accuracy against real hardware, per config in entry order."""

    has_real_timing: bool
    configs: list[ConfigAccuracy] = Field(description="Empty without real timing.")


class CounterKind(StrEnum):
    """How a statistic behaves from block to block."""

    CUMULATIVE = "cumulative"
    PER_KERNEL = "per_kernel"
    RATE = "rate"
    TEXT = "text"


class Counter(Model):
    """One statistic of one kernel."""

    kind: CounterKind
    value: StatValue = Field(description="As printed.")
    own: float | None = Field(
        description="This kernel's own share: of a cumulative counter the difference to the block before (of the same "
        "stream where the counter is per stream), of a per-kernel one its value; null where there is none, and, with "
        "concurrent kernels, where the share can't be told from theirs."
    )


class KernelDetail(Model):
    """Addition: one finished kernel with all its statistics."""

    stat: KernelStat = Field(description="With full `stats`.")
    counters: dict[str, Counter]
    finished_uid: int | None = Field(default=None, description="The uid of the kernel that finished, from the log.")
    finished_name: str | None = Field(default=None, description="Its name, mangled, from its launch.")
    own_cycles: int | None = Field(
        default=None, description="Cycles from that kernel's launch to its end, from gpu_tot_sim_cycle."
    )
    overlapped: bool = Field(default=False, description="Other kernels ran at some time while this one did.")
    derived: bool = Field(default=False, description="`finished_*` and `own_cycles` are not what the block prints.")
