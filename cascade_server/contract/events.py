"""The events of a run's stream, told apart by `type`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from .models import KernelStat, Model, RunDetail, SimSummary


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


RunEvent = Annotated[SnapshotEvent | SimEvent | LogEvent | KernelEvent, Field(discriminator="type")]
RUN_EVENT: TypeAdapter[SnapshotEvent | SimEvent | LogEvent | KernelEvent] = TypeAdapter(RunEvent)
