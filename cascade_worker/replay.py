"""A recorded log as a second source of the same stream of bytes, at the pace it was recorded or faster.

Recordings carry no times, but each stats block tells how many whole seconds the simulation had taken. These are the
anchors: a block comes out at once at its time, and the thread block lines of a kernel are spread over the time since
the block before, so that progress moves as it did.
"""

from __future__ import annotations

import asyncio
import csv
import lzma
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .lines import LineSplitter
from .source import Sink, SourceError

STEP_S = 0.05
"""Lines that are due within so much time come together."""

READ_BYTES = 256 << 10
_ANCHOR = re.compile(rb"gpgpu_simulation_time = .*\((\d{1,12}) sec\)")
_PACED = re.compile(rb"thread block = |GPGPU-Sim Cycle \d+: LIVENESS")
_LAST_LINE_AT = 0.9
"""A kernel's last thread block starts after about so much of its time."""


@dataclass(frozen=True, slots=True)
class RecordingInfo:
    """What a recording's `index.tsv` says of it; None where it says nothing."""

    gpu_config: str | None = None
    exit_code: int | None = None
    wall_s: float | None = None
    listed_kernels: int | None = None


@dataclass(frozen=True, slots=True)
class Stretch:
    """The lines up to a stats block's time, or to the end: how many are paced, and from when to when, in seconds."""

    paced: int
    start: float
    end: float


def recording_info(log: Path) -> RecordingInfo:
    """Look a recording up in the index.tsv beside it: name, gpu_config, exit_code, wall_s, listed_kernels."""
    name = log.name.removesuffix(".xz").removesuffix(".log")
    try:
        with (log.parent / "index.tsv").open(encoding="utf-8", newline="") as file:
            row = next((row for row in csv.DictReader(file, delimiter="\t") if row.get("name") == name), {})
    except (OSError, UnicodeDecodeError, csv.Error):
        return RecordingInfo()
    exit_code, wall_s, listed = (_number(row.get(key)) for key in ("exit_code", "wall_s", "listed_kernels"))
    return RecordingInfo(
        gpu_config=row.get("gpu_config") or None,
        exit_code=None if exit_code is None else int(exit_code),
        wall_s=wall_s,
        listed_kernels=None if listed is None else int(listed),
    )


class Replay:
    """Prints a recording, `.log` or `.log.xz`."""

    def __init__(
        self,
        log: Path,
        *,
        speed: float,
        exit_code: int,
        wall_s: float | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`speed`: times faster than recorded, 0 for as fast as possible; `wall_s`: how long it took, if known."""
        self._log = log
        self._speed = speed
        self._exit_code = exit_code
        self._wall_s = wall_s
        self._sleep = sleep
        self._clock = clock

    async def run(self, sink: Sink) -> int:
        """Print all of it; returns the recorded exit code. Raises SourceError if it can't be read."""
        try:
            if self._speed > 0:
                await self._paced(sink)
            else:
                for data in _pieces(self._log):
                    sink(data)
                    await asyncio.sleep(0)
        except (lzma.LZMAError, EOFError) as error:
            raise SourceError(f"The recording {self._log} is damaged: {error}.") from error
        except FileNotFoundError as error:
            raise SourceError(f"There is no recording {self._log}.") from error
        return self._exit_code

    async def _paced(self, sink: Sink) -> None:
        plan = await asyncio.to_thread(_plan, self._log, self._wall_s)
        started = self._clock()
        gathered: list[bytes] = []
        held = 0

        def release() -> None:
            nonlocal held
            if gathered:
                sink(b"".join(gathered))
            gathered.clear()
            held = 0

        def ahead(due: float) -> float:
            return due / self._speed - (self._clock() - started)

        for line, due in _timed(self._log, plan):
            if (wait := ahead(due)) > 0:
                release()
                await self._sleep(max(wait, STEP_S))
            gathered.append(line)
            held += len(line)
            if held >= READ_BYTES:
                release()
                await asyncio.sleep(0)
        release()
        if (wait := ahead(plan[-1].end)) > 0:
            await self._sleep(wait)


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None


def _pieces(log: Path) -> Iterator[bytes]:
    with lzma.open(log) if log.suffix == ".xz" else log.open("rb") as file:
        while data := file.read(READ_BYTES):
            yield data


def _lines(log: Path) -> Iterator[bytes]:
    splitter = LineSplitter()
    for data in _pieces(log):
        for line in splitter.feed(data):
            yield line + b"\n"
    if rest := splitter.rest():
        yield rest


def _plan(log: Path, wall_s: float | None) -> list[Stretch]:
    paced = [0]
    seconds: list[int] = []
    for line in _lines(log):
        if anchor := _ANCHOR.match(line):
            seconds.append(int(anchor[1]))
            paced.append(0)
        elif _PACED.match(line):
            paced[-1] += 1
    ends = _spread(seconds)
    last = ends[-1] if ends else 0.0
    if wall_s is not None and last > 0:
        # Lines behind the last block are of a kernel that did not end: leave it what is left of the whole time.
        scale = wall_s / last if not paced[-1] else min(1.0, _LAST_LINE_AT * wall_s / last)
        ends = [end * scale for end in ends]
        last = ends[-1]
    ends.append(max(last, wall_s or 0.0))
    starts = [0.0, *ends]
    return [Stretch(*stretch) for stretch in zip(paced, starts, ends, strict=False)]


def _spread(seconds: list[int]) -> list[float]:
    """Times for the whole seconds that the blocks tell: those that tell the same one share it evenly."""
    times: list[float] = []
    at = 0
    while at < len(seconds):
        same = next((i for i in range(at, len(seconds)) if seconds[i] != seconds[at]), len(seconds)) - at
        floor = max(float(seconds[at]), times[-1] if times else 0.0)
        times += [floor + (i + 0.5) / same for i in range(same)]
        at += same
    return times


def _timed(log: Path, plan: list[Stretch]) -> Iterator[tuple[bytes, float]]:
    """Each line with the second it is due at."""
    stretches = iter(plan)
    stretch = next(stretches)
    count = 0
    due = 0.0
    for line in _lines(log):
        if _ANCHOR.match(line):
            due = stretch.end
            stretch = next(stretches)
            count = 0
        elif line.startswith((b"kernel_name = ", b"Destroy streams")):
            due = max(due, stretch.end)
        elif _PACED.match(line):
            count += 1
            due = max(due, stretch.start + (stretch.end - stretch.start) * _LAST_LINE_AT * count / stretch.paced)
        elif stretch is plan[-1] and count == stretch.paced > 0:
            due = stretch.end  # what it said when it ended
        yield line, due
