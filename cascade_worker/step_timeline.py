"""The steps of a real run (a prefill, a decode, …) with the times that a simulation predicts for them. Pure.

How a step's time is predicted
    Each kernel of a step takes the simulated time of the traced kernel that stands for it, or its real time where none
    does. What a real step spends beside its kernels (launches, the CPU) is not simulated and stays as it was:
    `sim = real - kernels' real time + kernels' predicted time`. Where the kernels of a step add up to more than the
    step, they ran at the same time, and the step is scaled: `sim = real * predicted / kernels' real time`.

How steps are laid out
    The first starts at its real start. Every other one starts as long after the end of the step before it (the one that
    really ended last before it started) as it really did: pauses stay. One before which none had ended keeps its start.

A request lasts from the start of its first step to the end of its last. Errors are `(sim - real) / real * 100`; where
the real time is 0 there is none, and it doesn't count in a mean.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cascade_server.contract.models import INT64_MAX, StepTimelineBody
from cascade_server.contract.text import display_text

TIMELINE = "corrected_timeline.json"
MAPPING = "kernel_mapping.json"

_EXACT_NS = 1e12
"""Below this a float holds a time in ns with more than enough digits; times since 1970 are rounded to whole ns."""


class TimelineError(Exception):
    """The files do not say what is needed; the message is a sentence without its full stop."""


@dataclass(frozen=True, slots=True)
class StepKernel:
    """A kernel of the real run."""

    key: str
    duration_ns: int | float


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the real run."""

    index: int
    kind: str
    start_ns: int | float
    end_ns: int | float
    requests: tuple[str, ...]
    kernels: tuple[StepKernel, ...]

    @property
    def real_ns(self) -> float:
        """How long it took; exact also for times since 1970."""
        return float(self.end_ns - self.start_ns)


@dataclass(frozen=True, slots=True)
class Span:
    """When a step ran, in ns since the start of the first: really, and as predicted."""

    real_start: float
    real_end: float
    start: float
    end: float


def build(timeline: object, mapping: object, sim_times_ns: Mapping[int, float]) -> StepTimelineBody:
    """Both JSON files, parsed, and the simulated time of each kernel_id → what the server is sent.

    Raises TimelineError.
    """
    steps = parse_timeline(timeline)
    kernel_ids = parse_mapping(mapping)
    times = {key: sim_times_ns[id_] for key, id_ in kernel_ids.items() if id_ in sim_times_ns}
    predicted = [predict(step, times) for step in steps]
    spans = lay_out(steps, predicted)
    simulated = {
        "steps": _simulated_steps(steps, predicted, spans, times),
        "summary": {"per_kind": _per_kind(steps, predicted), "simulation": _coverage(steps, times)},
    }
    return StepTimelineBody(simulated=simulated, compare=_compare(steps, predicted, spans))


def kernel_times(
    ids: Sequence[int | None], cycles: Sequence[tuple[int | None, int | None]], core_clock_mhz: float
) -> dict[int, float]:
    """The simulated ns of each kernel_id of a kernel list.

    `cycles`: the uid and cycles of each stats block; the simulator's uids count the listed kernels from 1. A kernel
    that is listed several times gets the mean. Raises TimelineError for a run in which kernels ran at the same time.
    """
    uids = [uid for uid, _ in cycles]
    if None in uids or len(set(uids)) < len(uids):
        raise TimelineError("kernels of this sim ran at the same time, so that the time of each alone is not known")
    found: defaultdict[int, list[float]] = defaultdict(list)
    for uid, count in cycles:
        kernel_id = ids[uid - 1] if uid is not None and 1 <= uid <= len(ids) else None
        if kernel_id is not None and count is not None and 0 <= (time_ns := count / core_clock_mhz * 1000) <= INT64_MAX:
            found[kernel_id].append(time_ns)
    return {kernel_id: math.fsum(times) / len(times) for kernel_id, times in found.items()}


# -- predicting ----------------------------------------------------------------------------------


def predict(step: Step, times: Mapping[str, float]) -> float:
    """A step's predicted ns, from those of its kernels by key."""
    real = math.fsum(kernel.duration_ns for kernel in step.kernels)
    simulated = math.fsum(times.get(kernel.key, kernel.duration_ns) for kernel in step.kernels)
    if simulated == real:
        return step.real_ns
    if real <= step.real_ns:
        return step.real_ns - real + simulated
    return simulated * (step.real_ns / real)


def lay_out(steps: Sequence[Step], predicted: Sequence[float]) -> list[Span]:
    """When each step runs, in the order given."""
    origin = min(step.start_ns for step in steps)
    spans: dict[int, Span] = {}
    running: list[tuple[float, float]] = []
    real_before = before = 0.0
    for place in sorted(range(len(steps)), key=lambda i: (steps[i].start_ns, steps[i].end_ns)):
        real_start = float(steps[place].start_ns - origin)
        while running and running[0][0] <= real_start:
            # Of those that ended together the heap gives the one with the latest predicted end last.
            real_before, before = heapq.heappop(running)
        start = before + (real_start - real_before)
        span = Span(real_start, float(steps[place].end_ns - origin), start, start + predicted[place])
        heapq.heappush(running, (span.real_end, span.end))
        spans[place] = span
    return [spans[place] for place in range(len(steps))]


def _simulated_steps(
    steps: Sequence[Step], predicted: Sequence[float], spans: Sequence[Span], times: Mapping[str, float]
) -> list[dict[str, Any]]:
    origin = min(step.start_ns for step in steps)
    return [
        {
            "index": step.index,
            "kind": step.kind,
            "start_ns": _at(origin, span.start),
            "end_ns": _at(origin, span.end),
            "duration_ns": duration,
            "requests": list(step.requests),
            "kernels": [
                {"key": kernel.key, "duration_ns": times.get(kernel.key, kernel.duration_ns)} for kernel in step.kernels
            ],
        }
        for step, duration, span in zip(steps, predicted, spans, strict=True)
    ]


def _at(origin: int | float, offset: float) -> int | float:
    return origin + offset if abs(origin) < _EXACT_NS else round(origin) + round(offset)


def _per_kind(steps: Sequence[Step], predicted: Sequence[float]) -> dict[str, dict[str, float]]:
    kinds: defaultdict[str, list[float]] = defaultdict(list)
    for step, duration in zip(steps, predicted, strict=True):
        kinds[step.kind].append(duration)
    return {kind: {"steps": len(times), "mean_ns": math.fsum(times) / len(times)} for kind, times in kinds.items()}


def _coverage(steps: Sequence[Step], times: Mapping[str, float]) -> dict[str, float]:
    kernels = [kernel for step in steps for kernel in step.kernels]
    mapped = [kernel for kernel in kernels if kernel.key in times]
    total_ns = math.fsum(kernel.duration_ns for kernel in kernels)
    mapped_ns = math.fsum(kernel.duration_ns for kernel in mapped)
    return {
        "coverage": mapped_ns / total_ns if total_ns else 0.0,
        "kernels_mapped": len(mapped),
        "kernels_total": len(kernels),
    }


# -- comparing -----------------------------------------------------------------------------------


def _compare(steps: Sequence[Step], predicted: Sequence[float], spans: Sequence[Span]) -> dict[str, Any]:
    per_step = [
        {"index": step.index, "kind": step.kind, **_against(step.real_ns, duration)}
        for step, duration in zip(steps, predicted, strict=True)
    ]
    requests: defaultdict[str, list[Span]] = defaultdict(list)
    for step, span in zip(steps, spans, strict=True):
        for request in step.requests:
            requests[request].append(span)
    per_request = [
        {
            "request": request,
            **_against(
                max(span.real_end for span in its) - min(span.real_start for span in its),
                max(span.end for span in its) - min(span.start for span in its),
            ),
        }
        for request, its in requests.items()
    ]
    return {
        "per_step": per_step,
        "per_request": per_request,
        "mape": {"steps": _mape(per_step), "requests": _mape(per_request)},
    }


def _against(real_ns: float, sim_ns: float) -> dict[str, float | None]:
    error = (sim_ns - real_ns) / real_ns * 100 if real_ns else math.nan
    return {"real_ns": real_ns, "sim_ns": sim_ns, "error_pct": error if math.isfinite(error) else None}


def _mape(rows: Iterable[Mapping[str, Any]]) -> float | None:
    errors = [abs(row["error_pct"]) for row in rows if row["error_pct"] is not None]
    # Divided first: errors against tiny real times may add up to more than a float holds.
    return math.fsum(error / len(errors) for error in errors) if errors else None


# -- reading -------------------------------------------------------------------------------------


def parse_timeline(raw: object) -> tuple[Step, ...]:
    """The steps of a corrected_timeline.json in its order.

    Times and keys must be there; a missing index is the step's place, a missing kind `unknown`, missing requests or
    kernels are none. Raises TimelineError.
    """
    rows = raw.get("steps") if isinstance(raw, dict) else None
    if not isinstance(rows, list) or not rows:
        raise TimelineError(f'{TIMELINE} holds no list "steps" with steps in it')
    return tuple(_step(row, place) for place, row in enumerate(rows))


def parse_mapping(raw: object) -> dict[str, int]:
    """The kernel_id that stands for each key, of a kernel_mapping.json. Raises TimelineError."""
    rows = raw.get("kernels") if isinstance(raw, dict) else None
    if not isinstance(rows, dict):
        raise TimelineError(f'{MAPPING} holds no object "kernels"')
    found = {}
    for key, value in rows.items():
        kernel_id = _whole(value)
        if kernel_id is None:
            raise TimelineError(f"{MAPPING} maps {display_text(key)[:80]!r} to no kernel_id (a whole number)")
        found[display_text(key)] = kernel_id
    return found


def _step(row: object, place: int) -> Step:
    where = f"steps[{place}]"
    if not isinstance(row, dict):
        raise _wrong(where, "is no object")
    start, end = _time(row, "start_ns", where), _time(row, "end_ns", where)
    if end < start:
        raise _wrong(where, "ends before it starts")
    index, kind = row.get("index", place), row.get("kind", "unknown")
    if (whole := _whole(index)) is None:
        raise _wrong(f"{where}.index", "is no whole number")
    if not isinstance(kind, str):
        raise _wrong(f"{where}.kind", "is no text")
    requests = dict.fromkeys(_request(request, where) for request in _rows(row, "requests", where))
    kernels = (_kernel(item, f"{where}.kernels[{at}]") for at, item in enumerate(_rows(row, "kernels", where)))
    return Step(whole, display_text(kind), start, end, tuple(requests), tuple(kernels))


def _kernel(row: object, where: str) -> StepKernel:
    if not isinstance(row, dict) or not isinstance(row.get("key"), str):
        raise _wrong(where, "has no key")
    duration = _time(row, "duration_ns", where)
    if duration < 0:
        raise _wrong(f"{where}.duration_ns", "is negative")
    return StepKernel(display_text(row["key"]), duration)


def _request(value: object, where: str) -> str:
    if isinstance(value, str):
        return display_text(value)
    if isinstance(value, int) and (whole := _whole(value)) is not None:
        return str(whole)
    raise _wrong(f"{where}.requests", "holds something that is no request's name")


def _rows(row: Mapping[str, Any], name: str, where: str) -> list[Any]:
    rows = row.get(name)
    if rows is None:
        return []
    if not isinstance(rows, list):
        raise _wrong(f"{where}.{name}", "is no list")
    return rows


def _time(row: Mapping[str, Any], name: str, where: str) -> int | float:
    value = row.get(name)
    if value is None:
        raise _wrong(f"{where}.{name}", "is missing")
    # Bounded, so that no sum of times is infinite.
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= INT64_MAX:
        raise _wrong(f"{where}.{name}", "is no time in ns")
    return value


def _whole(value: object) -> int | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= INT64_MAX else None


def _wrong(where: str, what: str) -> TimelineError:
    return TimelineError(f"{where} in {TIMELINE} {what}")
