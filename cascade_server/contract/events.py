"""The events of a run's stream, told apart by `type`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from .models import KernelStat, Model, RunDetail, RunSummary, SimSummary, TraceSummary


class SnapshotEvent(Model):
    """The whole run, sent first and again after a client fell behind; replaces all known before."""

    type: Literal["snapshot"] = "snapshot"
    run: RunDetail
    kernels: list[KernelStat] = Field(description="Each with empty `stats`.")


class SimEvent(Model):
    """A sim's newest summary; of several in a row only the newest may arrive."""

    type: Literal["sim"] = "sim"
    sim: SimSummary


class LogEvent(Model):
    """New lines of a sim's log, cleaned for display (bytes that are not UTF-8 show as U+FFFD).

    A client that reads slowly may miss lines; `seq` shows the gap and the log route has them all.
    """

    type: Literal["log"] = "log"
    sim_id: str
    lines: list[str]
    seq: int | None = Field(default=None, description="Addition: line number of the first of `lines`.")


class KernelEvent(Model):
    """A kernel finished; sent again with `partial` set if a limit turns out to have cut it."""

    type: Literal["kernel"] = "kernel"
    stat: KernelStat = Field(description="With full `stats`.")


class ServerSnapshotEvent(Model):
    """Addition: all runs and traces, newest first; sent first and after a client fell behind."""

    type: Literal["snapshot"] = "snapshot"
    runs: list[RunSummary]
    traces: list[TraceSummary]


class RunChangedEvent(Model):
    """Addition: a run is new or its state or counts changed; only the newest of a run may arrive."""

    type: Literal["run"] = "run"
    run: RunSummary


class TraceChangedEvent(Model):
    """Addition: a trace is new or changed; only the newest of a trace may arrive."""

    type: Literal["trace"] = "trace"
    trace: TraceSummary


class TraceGoneEvent(Model):
    """Addition: a trace's folder has gone."""

    type: Literal["trace_gone"] = "trace_gone"
    trace_id: str


ServerEvent = Annotated[
    ServerSnapshotEvent | RunChangedEvent | TraceChangedEvent | TraceGoneEvent, Field(discriminator="type")
]
SERVER_EVENT: TypeAdapter[ServerSnapshotEvent | RunChangedEvent | TraceChangedEvent | TraceGoneEvent] = TypeAdapter(
    ServerEvent
)

RunEvent = Annotated[SnapshotEvent | SimEvent | LogEvent | KernelEvent, Field(discriminator="type")]
RUN_EVENT: TypeAdapter[SnapshotEvent | SimEvent | LogEvent | KernelEvent] = TypeAdapter(RunEvent)
