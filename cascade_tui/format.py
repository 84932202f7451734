"""Values into words: numbers, times, sizes, rates, states and text from outside.

Pure functions; nothing here knows of widgets. What is missing is shown as `MISSING`, never as 0.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from cascade_server.contract.models import RunSummary, SimSummary
from cascade_server.contract.states import FINISHED, RunState, SimState, TraceState

MISSING = "–"

_ANSI = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI … final byte
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\|$)"  # OSC, DCS and their like, with or without an end
    r"|\x1b[ -/]*[0-~]?"  # two-byte escapes, and a lone ESC
)
_TAB = 8


@dataclass(frozen=True, slots=True)
class Look:
    """How a state is shown: a glyph, a word and the theme variable of its colour."""

    glyph: str
    word: str
    color: str

    @property
    def label(self) -> str:
        """Glyph and word, so that a state is told without colour."""
        return f"{self.glyph} {self.word}"


SIM_LOOKS: Mapping[SimState, Look] = {
    SimState.PENDING: Look("○", "pending", "text-muted"),
    SimState.LAUNCHING: Look("◔", "launching", "secondary"),
    SimState.RUNNING: Look("●", "running", "primary"),
    SimState.LOST: Look("?", "lost", "warning"),
    SimState.SUCCEEDED: Look("✓", "succeeded", "success"),
    SimState.FAILED: Look("✗", "failed", "error"),
    SimState.CANCELLED: Look("⊘", "cancelled", "text-muted"),
}

RUN_LOOKS: Mapping[RunState, Look] = {
    RunState.ACTIVE: Look("●", "active", "primary"),
    RunState.SUCCEEDED: Look("✓", "succeeded", "success"),
    RunState.PARTIAL: Look("◐", "partial", "warning"),
    RunState.FAILED: Look("✗", "failed", "error"),
    RunState.CANCELLED: Look("⊘", "cancelled", "text-muted"),
}

TRACE_LOOKS: Mapping[TraceState, Look] = {
    TraceState.UPLOADING: Look("↑", "uploading", "primary"),
    TraceState.PROCESSING: Look("◔", "processing", "secondary"),
    TraceState.READY: Look("✓", "ready", "success"),
    TraceState.FAILED: Look("✗", "failed", "error"),
}


# -- text from outside ---------------------------------------------------------------------


def safe_text(text: str) -> str:
    """Make one line of text from outside fit for a cell.

    Escape sequences, control characters, invisible and direction-changing characters go; tabs and line breaks
    become spaces; lone surrogates become U+FFFD. Brackets stay: nothing here is ever read as markup.
    """
    if text.isascii() and text.isprintable():
        return text
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    return "".join(map(_safe_char, text.expandtabs(_TAB)))


def _safe_char(char: str) -> str:
    if char.isprintable():
        # A variation selector widens the glyph before it in some terminals and not in others.
        return "" if "\ufe00" <= char <= "\ufe0f" else char
    if char in "\n\r\v\f\u2028\u2029":
        return " "
    category = unicodedata.category(char)
    if category == "Zs":
        return " "
    return "\ufffd" if category in ("Cs", "Co", "Cn") else ""


def shorten(text: str, width: int) -> str:
    """Cut text to `width` characters, the last an ellipsis where something was cut."""
    if len(text) <= width:
        return text
    return text[: max(0, width - 1)] + "…" if width > 0 else ""


def plural(count: int, word: str) -> str:
    """Count and word: `1 sim`, `6 sims`."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


# -- numbers -------------------------------------------------------------------------------


def number(value: float | None, digits: int = 1) -> str:
    """Show a number with thousands separators and at most `digits` decimals; not finite is missing."""
    if value is None or not math.isfinite(value):
        return MISSING
    return f"{value:,.{digits}f}"


def si(value: float | None, unit: str = "") -> str:
    """Show a quantity to three digits with an SI prefix: `142k`, `1.20M inst/s`."""
    if value is None or not math.isfinite(value):
        return MISSING
    scaled, prefix = float(value), ""
    for larger in ("k", "M", "G", "T", "P"):
        if abs(scaled) < 999.5:
            break
        scaled, prefix = scaled / 1000, larger
    digits = 0 if abs(scaled) >= 99.95 or (not prefix and scaled == int(scaled)) else 1 if abs(scaled) >= 9.995 else 2
    return f"{scaled:.{digits}f}{prefix}{' ' if unit else ''}{unit}"


def ipc(value: float | None) -> str:
    """Show instructions per cycle so that it fits six columns up to a million."""
    if value is None or not math.isfinite(value):
        return MISSING
    return f"{value:.1f}" if abs(value) < 9999.95 else si(value)


def size(count: int | None) -> str:
    """Show bytes with a binary prefix: `76 KB` is 76 × 1024."""
    if count is None:
        return MISSING
    if count < 1024:
        return f"{count} B"
    value = float(count)
    for prefix in ("KB", "MB", "GB", "TB", "PB"):
        value /= 1024
        if value < 999.5 or prefix == "PB":
            return f"{value:.0f} {prefix}" if value >= 9.95 else f"{value:.1f} {prefix}"
    raise AssertionError("unreachable")


def dims(values: tuple[int, int, int]) -> str:
    """Show a grid or block without trailing ones: `32`, `16×4`, `1`."""
    kept = list(values)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return "×".join(map(str, kept))


# -- time ----------------------------------------------------------------------------------


def duration(seconds: float | None) -> str:
    """Show seconds in at most five columns: `42s`, `3:07`, `2h14`, `3d04`."""
    if seconds is None or not math.isfinite(seconds):
        return MISSING
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02}"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}"
    return f"{whole // 86_400}d{whole % 86_400 // 3600:02}"


def age(since: datetime, now: datetime) -> str:
    """Show how long ago in one coarse unit; it changes at most once a minute: `now`, `5m`, `3h`, `12d`."""
    seconds = max(0, int((now - since).total_seconds()))
    if seconds < 60:
        return "now"
    for length, unit in ((3600, "m"), (86_400, "h"), (10**12, "d")):
        if seconds < length:
            return f"{seconds // {'m': 60, 'h': 3600, 'd': 86_400}[unit]}{unit}"
    raise AssertionError("unreachable")


def nanoseconds(value: float | None) -> str:
    """Show a simulated time in the unit that fits it: `812 ns`, `7.16 µs`, `1.20 ms`."""
    if value is None or not math.isfinite(value):
        return MISSING
    divisor, unit = time_unit(value)
    scaled = value / divisor
    digits = 0 if divisor == 1 or scaled >= 99.95 else 1 if scaled >= 9.995 else 2
    return f"{scaled:.{digits}f} {unit}"


def time_unit(largest_ns: float) -> tuple[float, str]:
    """Choose the unit for values up to `largest_ns`: nanoseconds in it, and its name."""
    for divisor, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if largest_ns >= divisor:
            return divisor, unit
    return 1.0, "ns"


# -- sims and runs -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a sim is.

    `done` and `issued` are fractions of the whole, in 0..1 and together at most 1: `done` counts finished kernels
    only, `issued` is the running kernel's share times its issued blocks, which are not finished blocks.
    """

    kernels_done: int
    kernels_total: int
    done: float
    issued: float

    @property
    def count(self) -> str:
        """Kernels done of total."""
        return f"{self.kernels_done}/{self.kernels_total}"


def progress_of(sim: SimSummary) -> Progress:
    """Say how far a sim is, never beyond the whole, whatever the counts say."""
    total = sim.kernels_total
    if sim.state is SimState.SUCCEEDED:
        return Progress(sim.kernels_done, total, 1.0, 0.0)
    done = min(1.0, sim.kernels_done / total) if total > 0 else 0.0
    issued = 0.0
    if sim.state not in FINISHED and total > 0 and sim.blocks_issued and sim.blocks_total:
        issued = min(1.0, sim.blocks_issued / sim.blocks_total) / total
    return Progress(sim.kernels_done, total, done, max(0.0, min(issued, 1.0 - done)))


def issued_of(sim: SimSummary) -> str:
    """Blocks issued of the running kernel's grid, such as `24/32`; missing when unknown or not running."""
    if sim.state not in (SimState.RUNNING, SimState.LOST) or sim.blocks_issued is None or not sim.blocks_total:
        return MISSING
    return f"{sim.blocks_issued}/{sim.blocks_total}"


def elapsed_of(sim: SimSummary, now: datetime) -> float | None:
    """Seconds from a sim's first heartbeat to its end, or to `now`; None before it started."""
    if sim.started_at is None:
        return None
    return max(0.0, ((sim.finished_at or now) - sim.started_at).total_seconds())


def eta_of(sim: SimSummary, now: datetime) -> float | None:
    """Estimate the seconds a running sim still needs, from the kernels it finished so far.

    None when nothing can be said: not running, no kernel finished, no total, or a stand-in, which ends when its
    recording does and not after `kernels_total`.
    """
    elapsed = elapsed_of(sim, now)
    if sim.state is not SimState.RUNNING or elapsed is None or sim.stand_in or sim.kernels_done <= 0:
        return None
    left = sim.kernels_total - sim.kernels_done
    return elapsed / sim.kernels_done * left if left > 0 else None


def eta(seconds: float | None) -> str:
    """Show an estimate, marked as one."""
    return MISSING if seconds is None else f"~{duration(seconds)}"


def entries_of(run: RunSummary) -> str:
    """Configs and counts: `SM7_QV100 ×2, SM7_TITANV`."""
    parts = (f"{e.gpu_config} ×{e.count}" if e.count > 1 else e.gpu_config for e in run.entries)
    return safe_text(", ".join(parts))


def counts_of(run: RunSummary, *, short: bool = False) -> str:
    """The states of a run's sims, liveliest first: `3 running · 2 pending`, short `3● 2○`."""
    order = (
        SimState.RUNNING,
        SimState.LOST,
        SimState.LAUNCHING,
        SimState.PENDING,
        SimState.SUCCEEDED,
        SimState.FAILED,
        SimState.CANCELLED,
    )
    present = [state for state in order if run.sim_counts.get(state)]
    if short:
        return " ".join(f"{run.sim_counts[s]}{SIM_LOOKS[s].glyph}" for s in present)
    return " · ".join(f"{run.sim_counts[s]} {SIM_LOOKS[s].word}" for s in present)


def finished_of(run: RunSummary) -> tuple[int, int]:
    """Finished sims and all sims of a run."""
    return sum(n for s, n in run.sim_counts.items() if s in FINISHED), sum(run.sim_counts.values())
