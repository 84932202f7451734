"""Values into words: text from outside made harmless, kernel names, times, sizes, states. Pure functions."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache

from pydemumble import demangle

from cascade_server.contract.models import RunSummary, SimSummary
from cascade_server.contract.states import FINISHED, RunState, SimState, TraceState
from cascade_server.contract.text import may_demangle

MISSING = "–"

_HARMFUL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ud800-\udfff"
    "\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
"""What moves a cursor, colours, hides or turns text around; not tab and line feed."""

_OPENING = "(<[{"
_CLOSING = ")>]}"

STATE_STYLES: Mapping[str, tuple[str, str]] = {
    SimState.PENDING: ("○", "dim"),
    SimState.LAUNCHING: ("◔", "cyan"),
    SimState.RUNNING: ("●", "cyan"),
    SimState.LOST: ("?", "yellow"),
    SimState.SUCCEEDED: ("✓", "green"),
    SimState.FAILED: ("✗", "red"),
    SimState.CANCELLED: ("⊘", "dim"),
    RunState.ACTIVE: ("●", "cyan"),
    RunState.PARTIAL: ("◐", "yellow"),
    TraceState.UPLOADING: ("↑", "cyan"),
    TraceState.PROCESSING: ("◔", "cyan"),
    TraceState.READY: ("✓", "green"),
}
"""Glyph and colour of every state by its word: a state is told without colour, too."""


def visible(text: str) -> str:
    r"""Show what a terminal would act on: ESC as `^[`, others as `^G`, `\x9b`, `\u202e`; lines and tabs stay."""
    return text if text.isascii() and text.isprintable() else _HARMFUL.sub(_shown, text)


def harmless(text: str) -> str:
    """The same on one line, for cells and messages."""
    return visible(text).replace("\n", " ").replace("\t", " ")


def _shown(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20 or code == 0x7F:
        return f"^{chr(code ^ 0x40)}"
    if 0xD800 <= code <= 0xDFFF:
        return "\ufffd"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


# -- kernel names --------------------------------------------------------------------------


@lru_cache(maxsize=8192)
def full_name(name: str) -> str:
    """Demangle a kernel's name; what isn't mangled, or can't be read, stays as it is."""
    if may_demangle(name):
        return demangle(name) or name
    return name


@lru_cache(maxsize=8192)
def short_name(name: str) -> str:
    """A mangled name without return type, namespaces and parameters: `copy<int, 4>`."""
    full = full_name(name)
    if full == name:
        return name
    cut, depth, start, seen = len(full), 0, 0, False
    for at, char in enumerate(full):
        if char == "(" and depth == 0 and seen and not full.startswith("(anonymous namespace)", at):
            cut = at
            break
        depth += (char in _OPENING) - (char in _CLOSING)
        if depth == 0 and (char == " " or full[at - 1 : at + 1] == "::"):
            start, seen = at + 1, False
        elif char not in " :":
            seen = True
    return full[start:cut] or full


# -- numbers -------------------------------------------------------------------------------


def count(value: float | None) -> str:
    """Show a whole number with separators."""
    return MISSING if value is None or not math.isfinite(value) else f"{value:,.0f}"


def number(value: float | None, digits: int = 2) -> str:
    """Show a number with `digits` decimals; missing where there is none."""
    return MISSING if value is None or not math.isfinite(value) else f"{value:,.{digits}f}"


def nanoseconds(value: float | None) -> str:
    """Show a time in the unit that fits it: `812 ns`, `7.16 µs`, `1.20 ms`."""
    if value is None or not math.isfinite(value):
        return MISSING
    for digits, unit, divisor in ((0, "ns", 1.0), (2, "µs", 1e3), (2, "ms", 1e6)):
        if round(abs(value) / divisor, digits) < 1000:
            return f"{value / divisor:.{digits}f} {unit}"
    return f"{value / 1e9:,.2f} s"


def size(value: int) -> str:
    """Show bytes with a binary prefix: `76 KiB` is 76 × 1024."""
    if value < 1024:
        return f"{value} B"
    scaled = float(value)
    for prefix in "KMGTP":
        scaled /= 1024
        if scaled < 999.5 or prefix == "P":
            return f"{scaled:.{0 if scaled >= 9.95 else 1}f} {prefix}iB"
    raise AssertionError("unreachable")


def duration(seconds: float | None) -> str:
    """Show seconds shortly: `42s`, `3:07`, `2h14`, `3d04`."""
    if seconds is None:
        return MISSING
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02}"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}"
    return f"{whole // 86_400}d{whole % 86_400 // 3600:02}"


def moment(at: datetime | None) -> str:
    """Show a time in this machine's zone, to the minute."""
    return MISSING if at is None else f"{at.astimezone():%Y-%m-%d %H:%M}"


def plural(number_of: int, word: str) -> str:
    """Count and word: `1 sim`, `6 sims`."""
    return f"{number_of:,} {word}" if number_of == 1 else f"{number_of:,} {word}s"


# -- runs and sims -------------------------------------------------------------------------


def entries_of(run: RunSummary) -> str:
    """Configs and counts: `SM7_QV100 ×2, SM7_TITANV`."""
    return ", ".join(f"{e.gpu_config} ×{e.count}" if e.count > 1 else e.gpu_config for e in run.entries)


def counts_of(counts: Mapping[SimState, int]) -> str:
    """How many sims are in which state: `3 running, 2 pending`."""
    return ", ".join(f"{counts[state]} {state}" for state in SimState if counts.get(state)) or "no sims"


def finished_of(run: RunSummary) -> str:
    """Finished sims of all sims of a run: `3/6`."""
    return f"{sum(n for s, n in run.sim_counts.items() if s in FINISHED)}/{sum(run.sim_counts.values())}"


def kernels_of(sim: SimSummary) -> str:
    """Kernels done of total, where the total is known."""
    return f"{sim.kernels_done:,}/{sim.kernels_total:,}" if sim.kernels_total else f"{sim.kernels_done:,}"


def sim_name(sim: SimSummary) -> str:
    """How people tell a run's sims apart: `SM7_QV100 #0`."""
    return f"{sim.gpu_config} #{sim.replica}"


def elapsed_of(sim: SimSummary, now: datetime) -> float | None:
    """Seconds from a sim's start to its end, or to now."""
    return None if sim.started_at is None else ((sim.finished_at or now) - sim.started_at).total_seconds()
