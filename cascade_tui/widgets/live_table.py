"""A table that is given whole and writes only what changed.

Textual's DataTable rescans a column when a cell's width may have changed and reads a `str` as markup. Here every
column has a fixed width (dropped or stretched to fit), every cell is a `Text`, and a flush compares before it writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from rich.text import Text
from textual import events
from textual.binding import BindingType
from textual.message import Message
from textual.widgets import DataTable

from cascade_tui.keymap import bindings

Cell = Text | Callable[[int], Text]
"""A cell, or what makes one for the width of its column."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `width` columns, more by `grow` shares up to `most` where there is room.

    Where there is too little, columns go by `priority`, the highest first; 0 stays.
    """

    id: str
    title: str
    width: int
    priority: int = 0
    grow: int = 0
    most: int = 1000
    least: int = 0
    """Columns it may shrink to when dropping others wasn't enough; 0: its width."""
    align: Literal["left", "right"] = "left"


@dataclass(frozen=True, slots=True)
class Row:
    """A row: its key, and a cell for each column it has something for."""

    key: str
    cells: Mapping[str, Cell]


PADDING = 1
_SCROLLBAR = 1


def fit(columns: Sequence[Column], room: int) -> list[tuple[Column, int]]:
    """Choose columns and widths for `room` terminal columns, padding included."""
    kept = list(columns)

    def needed() -> int:
        return sum(column.width + 2 * PADDING for column in kept)

    while needed() > room and (droppable := [column for column in kept if column.priority]):
        kept.remove(max(droppable, key=lambda column: column.priority))
    widths = {column.id: column.width for column in kept}
    left = room - needed()
    for column in reversed(kept):
        if left < 0 and column.least:
            cut = min(-left, column.width - column.least)
            widths[column.id] -= cut
            left += cut
    while left > 0 and (growing := [c for c in kept for _ in range(c.grow) if widths[c.id] < c.most]):
        for column in growing[:left]:
            if widths[column.id] < column.most:
                widths[column.id] += 1
                left -= 1
    return [(column, widths[column.id]) for column in kept]


class LiveTable(DataTable[Text], inherit_bindings=False):
    """Rows by key, a cursor that stays on its key, columns that fit."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("table")]
    CONTEXT = "table"

    class Chosen(Message):
        """The cursor is on another row."""

        def __init__(self, table: LiveTable, key: str | None) -> None:
            super().__init__()
            self.table = table
            self.key = key

        @property
        def control(self) -> LiveTable:
            """The table, for `@on` selectors."""
            return self.table

    class Opened(Chosen):
        """Enter, or a click, on a row."""

    def __init__(self, columns: Sequence[Column], *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(
            cursor_type="row", id=id, cell_padding=PADDING, cursor_foreground_priority="renderable", show_header=True
        )
        self._all_columns = tuple(columns)
        self._fitted: list[tuple[Column, int]] = []
        self._wanted: list[Row] = []
        self._shown: dict[str, dict[str, Text]] = {}
        self._chosen: str | None = None
        self._told: str | None = None
        self._moving = False

    @property
    def chosen(self) -> str | None:
        """The key of the row under the cursor."""
        return self._chosen

    def show(self, rows: Sequence[Row]) -> None:
        """Show these rows, in this order."""
        self._wanted = list(rows)
        if self._fitted:
            self._flush()

    def choose(self, key: str) -> None:
        """Put the cursor on a row, now or as soon as it is there."""
        self._chosen = key
        self._restore_cursor()

    def forget(self) -> None:
        """Make every cell anew at the next `show`, since colours changed."""
        for cells in self._shown.values():
            cells.update(dict.fromkeys(cells, Text("\0")))

    def on_resize(self, _event: events.Resize) -> None:
        """Fit the columns to the new width."""
        self.refit()

    def set_columns(self, columns: Sequence[Column]) -> None:
        """Take other columns, such as wider ones for longer names."""
        if tuple(columns) != self._all_columns:
            self._all_columns = tuple(columns)
            if self._fitted:
                self.refit()

    def refit(self) -> None:
        """Choose columns for the width there is."""
        fitted = fit(self._all_columns, max(1, self.size.width - _SCROLLBAR))
        if fitted != self._fitted:
            self._fitted = fitted
            self._rebuild()

    def _rebuild(self) -> None:
        self._moving = True
        self.clear(columns=True)
        self._shown = {}
        for column, width in self._fitted:
            title = Text(
                column.title if len(column.title) <= width else "",
                justify=column.align,
                no_wrap=True,
                overflow="ellipsis",
            )
            self.add_column(title, width=width, key=column.id)
        self._flush()

    def _flush(self) -> None:
        place = self.cursor_row
        keys = [row.key for row in self._wanted]
        old = list(self._shown)
        if keys[: len(old)] != old:
            self._moving = True
            self.clear()
            self._shown = {}
        for row in self._wanted:
            cells = {column.id: _cell(row.cells.get(column.id), column, width) for column, width in self._fitted}
            shown = self._shown.get(row.key)
            if shown is None:
                self.add_row(*cells.values(), key=row.key)
            else:
                for column_id, cell in cells.items():
                    if cell != shown[column_id] or cell.style != shown[column_id].style:
                        self.update_cell(row.key, column_id, cell, update_width=False)
            self._shown[row.key] = cells
        self._restore_cursor(place)

    def _restore_cursor(self, place: int = 0) -> None:
        """Put the cursor back on its row after rows came, went or moved; where that is gone, on the row at `place`."""
        keys = list(self._shown)
        if self._chosen in keys:
            index = keys.index(self._chosen)
        elif keys:
            index = min(max(place, 0), len(keys) - 1)
        else:
            self._moving = False
            return
        self._moving = False
        if self.cursor_row != index:
            self.move_cursor(row=index, animate=False)
        self._announce(keys[index])

    def _announce(self, key: str) -> None:
        self._chosen = key
        if key != self._told:
            self._told = key
            self.post_message(self.Chosen(self, key))

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        """Turn Textual's message into ours, unless it stems from a rebuild."""
        event.stop()
        key = event.row_key.value
        if not self._moving and key is not None and key in self._shown and event.cursor_row == self.cursor_row:
            self._announce(key)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Turn Textual's message into ours."""
        event.stop()
        self.post_message(self.Opened(self, event.row_key.value))


def _cell(cell: Cell | None, column: Column, width: int) -> Text:
    text = Text() if cell is None else cell if isinstance(cell, Text) else cell(width)
    text.no_wrap = True
    text.overflow = "ellipsis"
    text.justify = column.align
    return text
