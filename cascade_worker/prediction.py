"""From a trace's files and a simulator's log to the step timeline, or to sentences why there is none."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cascade_server.contract.models import StepTimelineBody

from .kernel_stats import finished_blocks
from .lines import file_lines
from .source import SourceError
from .step_timeline import MAPPING, TIMELINE, TimelineError, build, kernel_times, parse_mapping
from .workspace import read_kernel_list

MAX_BYTES = 32 << 20
"""Of each file; the server takes twice that, and what is sent is less than twice what was read."""

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Prediction:
    """What to send, if anything, and what to say in the sim's log: sentences."""

    body: StepTimelineBody | None = None
    remarks: tuple[str, ...] = ()


def predict(
    trace: Path, log: Path, size: int, core_clock_mhz: float | None, stopped: Callable[[], bool] = lambda: False
) -> Prediction:
    """The step timeline of a sim that succeeded and printed the first `size` bytes of `log`.

    A trace without either file gives neither a body nor a remark. Raises Interrupted, and OSError for the log.
    """
    paths = (trace / TIMELINE, trace / MAPPING)
    if not any(os.path.lexists(path) for path in paths):
        return Prediction()
    try:
        timeline, mapping = (_load(path) for path in paths)
        if core_clock_mhz is None:
            raise TimelineError("the core clock of the GPU config is not known")
        ids = read_kernel_list(trace).ids
        cycles = [
            (None if block.name_inferred else block.kernel_launch_uid, block.gpu_sim_cycle)
            for block, _ in finished_blocks(file_lines(log, size, stopped))
        ]
        times = kernel_times(ids, cycles, core_clock_mhz)
        body = build(timeline, mapping, times)
        return Prediction(body, _doubts(body, parse_mapping(mapping), set(times)))
    except TimelineError as error:
        return Prediction(remarks=(f"No step timeline was made: {error}.",))
    except SourceError as error:
        return Prediction(remarks=(f"No step timeline was made. {error}",))


def _load(path: Path) -> object:
    try:
        data = _read(path)
    except FileNotFoundError as error:
        other = TIMELINE if path.name == MAPPING else MAPPING
        raise TimelineError(f"{path.name} is missing beside {other}") from error
    except OSError as error:
        raise TimelineError(f"{path.name} can't be read ({error.strerror})") from error
    if len(data) > MAX_BYTES:
        raise TimelineError(f"{path.name} is larger than {MAX_BYTES >> 20} MiB")
    try:
        return json.loads(data.decode("utf-8-sig"))
    except RecursionError as error:
        raise TimelineError(f"{path.name} is nested too deeply") from error
    except ValueError as error:
        raise TimelineError(f"{path.name} is no JSON, or only a part of it ({error})") from error


def _read(path: Path) -> bytes:
    """At most one byte more than the limit; never waits for a pipe."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(0, "it is no regular file")
        return file.read(MAX_BYTES + 1)


def _doubts(body: StepTimelineBody, mapping: dict[str, int], simulated: set[int]) -> tuple[str, ...]:
    remarks = []
    if strange := [f"{key[:80]!r} to {id_}" for key, id_ in mapping.items() if id_ not in simulated]:
        more = f" and {len(strange) - _SHOWN} more" if len(strange) > _SHOWN else ""
        remarks.append(
            f"The step timeline keeps the real times of some kernels, since {MAPPING} maps them to kernels that this "
            f"sim has no time of: {', '.join(strange[:_SHOWN])}{more}."
        )
    if not body.simulated["summary"]["simulation"]["kernels_mapped"]:
        remarks.append(
            f"The step timeline predicts nothing: {MAPPING} maps no kernel of {TIMELINE} to one that was simulated, so "
            "all its times are the real ones."
        )
    return tuple(remarks)
