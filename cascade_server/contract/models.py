"""Every type that crosses the wire.

Field names, types and meanings are fixed; optional fields may be added. Those that Cascade adds to the
original contract say "Addition" in their description. Times are ISO 8601 in UTC.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from .states import RunState, SimState, TraceState

TRACE_ID = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$"
"""A trace's id is its folder's name; plain characters only, so that it is never a path or a command."""

FILE_NAME = r"^(?!\.{1,2}$)[A-Za-z0-9._-]{1,128}$"
"""Names of output files: 1 to 128 of letters, digits, `.`, `_`, `-`, and neither `.` nor `..`."""

MAX_ENTRY_COUNT = 64
INT64_MAX = 2**63 - 1

StatValue = int | float | str
"""A statistic as a number, or as the printed text where it is none (`-nan`, `inf`, a histogram)."""

Dim3 = tuple[int, int, int]


class Model(BaseModel):
    """Base of all wire types: unknown fields are ignored, so that older clients can talk to newer servers."""

    model_config = ConfigDict(extra="ignore", ser_json_inf_nan="null")


class Health(Model):
    """Whether the process serves; nothing else is checked."""

    ok: Literal[True] = True
    auth: bool = Field(description="False when the token check is turned off.")
    workspace: str | None = None
    version: str | None = Field(default=None, description="Addition: the server's version.")
    replay: bool = Field(
        default=False, description="Addition: sims replay recorded logs, since no Accel-Sim is set up."
    )


class ErrorBody(Model):
    """Every error answer."""

    detail: str | list[dict[str, Any]] = Field(
        description="One sentence, or for an invalid body a list of {loc, msg, type}."
    )


class GapBody(ErrorBody):
    """Refusal of a log chunk that would leave a gap."""

    next_seq: int = Field(description="The line number that is wanted next.")


class GpuConfig(Model):
    """One folder under Accel-Sim's tested-cfgs."""

    name: str
    arch: str = Field(description="Such as `sm_90`.")
    core_clock_mhz: float


class KernelLaunch(Model):
    """One kernel of a trace, from its `stats_ctx_*` file."""

    kernel_id: int = Field(description="The N of kernel-N.")
    name: str = Field(description="Mangled.")
    grid: Dim3 = Field(description="Blocks in x, y, z.")
    block: Dim3 = Field(description="Threads in x, y, z.")
    instructions: int | None = Field(description="Warp instructions traced; null when the row is cut short.")


class TraceSummary(Model):
    """One profiler run."""

    id: str
    state: TraceState
    error: str | None = None
    created_at: datetime
    updated_at: datetime
    model: str | None = None
    layers: list[str] = []
    source_gpu: str | None = None
    trace_gpu_arch: str = "sm_90"
    suggested_sim_config: str | None = None
    real_gpu_config: str | None = None
    sample_sim_configs: list[str] = []
    sample_set: str | None = None
    kernel_count: int = 0
    bytes: int = 0
    has_real_timing: bool = False
    has_step_timeline: bool = False
    sample: bool = Field(default=False, description="A bundled sample: results only, it can't be simulated.")
    warnings: list[str] = Field(default=[], description="Addition: what is odd about it but does not stop it.")
    demo: bool = Field(default=False, description="Addition: the bundled trace that can be run at once.")


class TraceDetail(TraceSummary):
    """A trace with its metadata and kernels."""

    metadata: dict[str, Any] | None = None
    kernels: list[KernelLaunch] = Field(default=[], description="By kernel_id; empty until ready.")


class RunEntry(Model):
    """A GPU config and how many sims of it."""

    gpu_config: str
    count: int = Field(ge=1, le=MAX_ENTRY_COUNT, strict=True)


class RunCreate(Model):
    """What to simulate."""

    trace_id: str
    entries: list[RunEntry] = Field(min_length=1)


class SimMetrics(Model):
    """Totals over all kernels a sim has finished."""

    gpu_tot_sim_cycle: float | None = None
    gpu_tot_sim_insn: float | None = None
    gpu_tot_ipc: float | None = None
    sim_rate_ips: float | None = Field(default=None, description="Simulated instructions a second.")


class RunSummary(Model):
    """One trace on a list of configs."""

    id: str
    trace_id: str
    created_at: datetime
    state: RunState
    entries: list[RunEntry]
    sim_counts: dict[SimState, int] = Field(description="Without zeros.")
    sample: bool = False
    replay: bool = Field(default=False, description="Replays recorded results.")
    notice: str | None = Field(
        default=None,
        description="Addition: one sentence that must be shown beside the numbers, such as that a replay "
        "stands in for sims it does not describe.",
    )


class SimSummary(Model):
    """One simulator working through the trace on one config."""

    id: str
    run_id: str
    gpu_config: str
    replica: int
    state: SimState
    error: str | None = None
    launcher_ref: str | None = Field(default=None, description="Process, job or sandbox id.")
    created_at: datetime
    started_at: datetime | None = Field(default=None, description="First running heartbeat.")
    finished_at: datetime | None = None
    last_heartbeat_at: datetime | None = None
    exit_code: int | None = None
    kernels_done: int = Field(default=0, description="Stats blocks parsed.")
    kernels_total: int = Field(default=0, description="The trace's count when the run was made.")
    current_kernel: str | None = Field(default=None, description="From the last `launching kernel name:`.")
    latest: SimMetrics = SimMetrics()
    log_tail: list[str] = Field(default=[], description="The last 20 lines.")
    log_lines: int = Field(default=0, description="Addition: lines stored so far.")
    blocks_issued: int | None = Field(
        default=None,
        description="Addition: thread blocks of the running kernel issued (not finished) so far.",
    )
    blocks_total: int | None = Field(default=None, description="Addition: thread blocks in its grid.")
    replay_of: str | None = Field(
        default=None, description="Addition: the recording this sim replays, null for a real simulation."
    )
    stand_in: bool = Field(
        default=False,
        description="Addition: the recording is of another trace or config; its numbers don't describe this one.",
    )


class RunDetail(RunSummary):
    """A run with its trace and sims."""

    trace: TraceSummary
    sims: list[SimSummary] = Field(description="By gpu_config, replica.")


class KernelStat(Model):
    """One kernel that a sim finished."""

    sim_id: str
    kernel_index: int = Field(description="0-based order of completion.")
    kernel_name: str
    kernel_launch_uid: int | None = None
    gpu_sim_cycle: int | None = None
    gpu_sim_insn: int | None = None
    gpu_ipc: float | None = None
    sim_time_ns: float | None = Field(default=None, description="gpu_sim_cycle / core_clock_mhz × 1000.")
    stats: dict[str, StatValue] = {}
    name_inferred: bool = Field(
        default=False, description="Addition: the block printed no name; this is the one kernel it can be."
    )
    partial: bool = Field(
        default=False, description="Addition: cut short by a cycle or instruction limit; not comparable."
    )


class ComparisonRow(Model):
    """The i-th kernel on every config."""

    kernel_index: int
    kernel_name: str
    real_ns: float | None = None
    sim_ns: dict[str, float | None]


class Comparison(Model):
    """Kernels matched by order, over all configs of a run."""

    has_real_timing: bool
    configs: list[str]
    rows: list[ComparisonRow]


class SimResults(Model):
    """Everything one sim found."""

    sim: SimSummary
    trace_id: str
    gpu_config: GpuConfig
    kernels: list[KernelStat]
    totals: SimMetrics


class RunResults(Model):
    """Everything a run found."""

    run: RunSummary
    trace: TraceDetail
    sims: list[SimResults]
    comparison: Comparison


class SimStepTimeline(Model):
    """Predicted durations of the real run's steps."""

    sim_id: str
    gpu_config: str
    replica: int
    simulated: dict[str, Any]
    compare: dict[str, Any] | None = None


class StepTimelineBody(Model):
    """What a worker sends after a sim succeeded on a trace with a step timeline."""

    simulated: dict[str, Any]
    compare: dict[str, Any] | None = None


class SimFile(Model):
    """A file a simulator left."""

    name: str
    size: int
    content_type: str
    created_at: datetime


class RunFile(SimFile):
    """The same, in a list over all sims of a run."""

    sim_id: str
    gpu_config: str
    replica: int


class Heartbeat(Model):
    """A worker's sign of life, or its last word."""

    state: Literal[SimState.RUNNING, SimState.SUCCEEDED, SimState.FAILED]
    error: str | None = None
    exit_code: int | None = Field(default=None, ge=-INT64_MAX, le=INT64_MAX)


class HeartbeatReply(Model):
    """What the worker should do."""

    cancel: bool


def _lines(value: object) -> object:
    """Accept any Python string, lone surrogates included: they carry bytes that are not UTF-8.

    pydantic's own `str` refuses them, yet a simulator's log must arrive byte for byte.
    """
    try:
        # Joined once rather than looked at one by one: lines are the bulk of all traffic.
        breaks = "\n".join(value).count("\n") if isinstance(value, list) else None
    except TypeError:
        breaks = None
    if breaks is None:
        raise ValueError("lines must be a list of strings")
    if breaks > max(0, len(value) - 1):  # type: ignore[arg-type]
        raise ValueError("a line must not hold a line feed")
    return value


class LogChunk(Model):
    """Lines of a sim's log, without their line feeds.

    Bytes that are not UTF-8 travel as lone surrogates U+DC80..U+DCFF (Python's `surrogateescape`).
    """

    seq: int = Field(ge=0, le=INT64_MAX, strict=True, description="Lines sent before this chunk.")
    lines: Annotated[list[Any], BeforeValidator(_lines)] = Field(json_schema_extra={"items": {"type": "string"}})
    unterminated: bool = Field(
        default=False, description="Addition: the last line is the log's last and ended without a line feed."
    )


class LogReply(Model):
    """Where to go on."""

    next_seq: int
