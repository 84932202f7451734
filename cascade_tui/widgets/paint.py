"""Small drawings out of text: badges and progress bars. Colours come from the theme, by name."""

from __future__ import annotations

from collections.abc import Mapping

from rich.style import Style
from rich.text import Text

from cascade_server.contract.models import SimSummary
from cascade_server.contract.states import SimState
from cascade_tui.format import SIM_LOOKS, Look, Progress, progress_of
from cascade_tui.kernel_names import full_name
from cascade_tui.themes import color

Variables = Mapping[str, str]
"""A theme's variables: name to colour."""

DONE = "━"
ISSUED = "╍"
REST = "─"
"""Three glyphs, so that a bar can be read without colour."""


def paint(variables: Variables, name: str, *, bold: bool = False, dim: bool = False) -> Style:
    """A style in a theme's colour."""
    return Style(color=color(variables, name), bold=bold or None, dim=dim or None)


def badge(look: Look, variables: Variables, width: int = 80) -> Text:
    """A state's glyph and word in its colour; the glyph alone where the word doesn't fit."""
    return Text(look.label if width >= len(look.label) else look.glyph, style=paint(variables, look.color))


def bar(progress: Progress, width: int, variables: Variables, name: str) -> Text:
    """Draw a bar: done kernels heavy, issued blocks of the running kernel dashed, the rest thin.

    Nothing that isn't done is drawn as done: `done` is rounded down. A kernel that has begun shows at least one cell.
    """
    done = int(progress.done * width + 1e-9)
    upto = round((progress.done + progress.issued) * width)
    issued = max(upto - done, int(done < width)) if progress.issued > 0 else 0
    text = Text(no_wrap=True)
    text.append(DONE * done, paint(variables, name))
    text.append(ISSUED * issued, paint(variables, "secondary"))
    text.append(REST * (width - done - issued), paint(variables, "track"))
    return text


def sim_bar(sim: SimSummary, width: int, variables: Variables) -> Text:
    """A sim's bar with its count of kernels, in `width` columns."""
    progress = progress_of(sim)
    count = progress.count if sim.state is not SimState.PENDING or sim.kernels_total else ""
    room = width - max(len(count), 5) - 1
    text = Text(no_wrap=True)
    if room >= 4:
        text = bar(progress, room, variables, SIM_LOOKS[sim.state].color)
        text.append(" ")
    text.append(count.rjust(max(len(count), 5)) if room >= 4 else count)
    return text


def spread(left: Text, right: Text, width: int) -> Text:
    """Put two texts at the ends of a line; the left one is cut where they would touch."""
    room = width - right.cell_len
    if room < 4:
        right, room = Text(), width
    text = left.copy()
    text.truncate(max(0, room - (1 if right else 0)), overflow="ellipsis")
    text.append(" " * max(0, room - text.cell_len))
    text.append_text(right)
    text.no_wrap = True
    return text


def signature(name: str, variables: Variables) -> Text:
    """A kernel's whole name without its return type, the parameters set back."""
    text = Text(full_name(name).removeprefix("void "))
    begin = text.plain.find("(")
    if begin > 0:
        text.stylize(paint(variables, "text-muted"), begin)
    return text


def joined(parts: list[Text], separator: str, style: Style) -> Text:
    """Join texts that aren't empty."""
    text = Text()
    for part in parts:
        if part:
            if text:
                text.append(separator, style)
            text.append_text(part)
    return text
