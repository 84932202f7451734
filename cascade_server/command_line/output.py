"""Prints tables, fields and notices with rich, and JSON as it came.

Nothing from outside is ever read as markup: all of it passes through `harmless` into a `Text`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import IO, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .text import STATE_STYLES, harmless, plural

GAP = 2
_UNBOUNDED = 100_000
"""The width of what is no terminal: nothing is cut from what another program reads."""

Cell = str | Text


class _Console(Console):
    def on_broken_pipe(self) -> None:
        # Called while the error is handled: the exit code is for `connect` to know.
        raise


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    `least` is the width down to which its cells may be cut, 0 for never; of the columns with a `drop`, the one with
    the highest goes first where the terminal is too narrow.
    """

    title: str
    right: bool = False
    least: int = 0
    drop: int = 0


def console(stream: IO[str] | None = None) -> Console:
    """A console on stdout (or another stream), as wide as its terminal."""
    out = stream or sys.stdout
    width = None if out.isatty() or os.environ.get("COLUMNS") else _UNBOUNDED
    return _Console(file=out, width=width, markup=False, emoji=False, highlight=False, soft_wrap=False)


def print_json(raw: bytes) -> None:
    """Print an answer's JSON exactly as the server wrote it, and a line feed."""
    sys.stdout.flush()
    sys.stdout.buffer.write(raw.rstrip(b"\n") + b"\n")
    sys.stdout.buffer.flush()


def state(word: str) -> Text:
    """A state by glyph, word and colour."""
    glyph, style = STATE_STYLES[word]
    return Text(f"{glyph} {word}", style=style)


def fields(to: Console, pairs: Iterable[tuple[str, Cell | None]]) -> None:
    """Print names and values, one a line; values that are None are left out."""
    grid = Table.grid(padding=(0, GAP, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs:
        if value is not None:
            grid.add_row(Text(name), _text(value))
    to.print(grid)


def notice(to: Console, text: str | None) -> None:
    """Print the sentence that must stand beside a run's numbers."""
    if text:
        to.print(Text(f"! {harmless(text)}", style="bold yellow"))


def line(to: Console, text: Cell = "") -> None:
    """Print one paragraph."""
    to.print(_text(text))


def table(to: Console, columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, empty: str) -> None:
    """Print a table that fits the console: cells are cut first, then columns dropped, and it says which."""
    if not rows:
        line(to, empty)
        return
    cells = [[_text(cell) for cell in row] for row in rows]
    natural = [max(len(column.title), *(row[at].cell_len for row in cells)) for at, column in enumerate(columns)]
    shown, widths = fit(columns, natural, to.width)
    out = Table(box=None, show_edge=False, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for at in shown:
        column = columns[at]
        justify: Literal["left", "right"] = "right" if column.right else "left"
        cut = bool(column.least)
        out.add_column(
            Text(column.title.upper()),
            justify=justify,
            width=widths.get(at),
            no_wrap=cut,
            overflow="ellipsis" if cut else "fold",
        )
    for row in cells:
        out.add_row(*(row[at] for at in shown))
    to.print(out)
    left_out = [column.title for at, column in enumerate(columns) if at not in shown]
    if left_out:
        to.print(Text(f"Too narrow for {', '.join(left_out)}.", style="dim"))


def fit(columns: Sequence[Column], natural: Sequence[int], width: int) -> tuple[list[int], dict[int, int]]:
    """Choose the columns to show and the widths of those that are cut."""
    shown = list(range(len(columns)))
    least = [min(n, c.least) if c.least else n for c, n in zip(columns, natural, strict=True)]
    while (spare := width - sum(least[at] for at in shown) - GAP * (len(shown) - 1)) < 0:
        droppable = [at for at in shown if columns[at].drop]
        if not droppable:
            return shown, {}
        shown.remove(max(droppable, key=lambda at: columns[at].drop))
    widths = {}
    for at in shown:
        grown = min(natural[at] - least[at], spare)
        widths[at] = least[at] + grown
        spare -= grown
    return shown, widths


def _text(cell: Cell) -> Text:
    return cell if isinstance(cell, Text) else Text(harmless(cell))


def notices(to: Console, of_runs: Iterable[tuple[str, str | None]]) -> None:
    """Print each notice of a list of runs once, with the runs that it concerns."""
    ids: dict[str, list[str]] = {}
    for run_id, text in of_runs:
        if text:
            ids.setdefault(text, []).append(run_id)
    for text, concerned in ids.items():
        named = ", ".join(concerned[:3])
        more = f" and {plural(len(concerned) - 3, 'more run')}" if len(concerned) > 3 else ""
        notice(to, f"{named}{more}: {text}")
