"""Drawing: columns that fit, bars that don't lie, charts of anything."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.text import Text
from textual.app import App, ComposeResult

from cascade_server.contract.states import SimState
from cascade_tui.format import Progress
from cascade_tui.themes import THEMES, VARIABLES, color
from cascade_tui.widgets.chart import ChartData, Plot
from cascade_tui.widgets.live_table import PADDING, Column, LiveTable, Row, fit
from cascade_tui.widgets.paint import DONE, ISSUED, REST, bar, sim_bar, spread

from .recorded import RUN_ID, sim_at

COLUMNS = (
    Column("a", "a", 10, least=4),
    Column("b", "b", 8, priority=1, grow=1, most=20),
    Column("c", "c", 6, priority=2),
    Column("d", "d", 6, grow=3, most=12),
)


@given(st.integers(0, 200))
def test_columns_fit_where_they_can(room: int) -> None:
    fitted = fit(COLUMNS, room)
    used = sum(width + 2 * PADDING for _, width in fitted)
    assert used <= max(room, 4 + 6 + 4 * PADDING)
    ids = [column.id for column, _ in fitted]
    assert {"a", "d"} <= set(ids), "what has no priority stays"
    assert ids == sorted(ids), "the order stays"
    assert "c" not in ids or "b" in ids, "the highest priority number goes first"
    assert all(width <= max(column.most, column.width) for column, width in fitted)


@given(st.floats(0, 1), st.floats(0, 1), st.integers(0, 80))
def test_a_bar_never_shows_more_done_than_is_done(done: float, issued: float, width: int) -> None:
    drawn = bar(Progress(0, 0, done, min(issued, 1 - done)), width, VARIABLES, "primary").plain
    assert len(drawn) == width
    assert drawn == DONE * drawn.count(DONE) + ISSUED * drawn.count(ISSUED) + REST * drawn.count(REST)
    assert drawn.count(DONE) <= done * width + 1e-6
    assert (drawn.count(DONE) == width) == (width == 0 or done >= 1 - 1e-9)


def test_a_begun_kernel_shows() -> None:
    sim = sim_at(RUN_ID, "SM7_QV100", 0, SimState.RUNNING, kernels=8, blocks=1, started=60).summary
    assert ISSUED in sim_bar(sim, 16, VARIABLES).plain
    assert sim_bar(sim, 16, VARIABLES).plain.endswith(" 8/12")


@given(st.text(max_size=30), st.text(max_size=30), st.integers(0, 60))
def test_spread_fills_its_line(left: str, right: str, width: int) -> None:
    assert spread(Text(left), Text(right), width).cell_len <= max(width, 0) or width < 4


TIMES = st.dictionaries(
    st.sampled_from(["SM7_QV100", "SM7_GV100", "a[/x]", "d", "e", "f", "g"]),
    st.dictionaries(st.integers(0, 400), st.floats(1e-3, 1e12), max_size=30),
    max_size=7,
)


@settings(max_examples=60, deadline=None)
@given(times=TIMES, width=st.integers(24, 150), height=st.integers(5, 40), log=st.booleans(), plain=st.booleans())
def test_any_data_can_be_charted(
    times: dict[str, dict[int, float]], width: int, height: int, log: bool, plain: bool
) -> None:
    data = ChartData(times)
    if not data.count:
        return
    colors = ["#58a6ff"] * (len(times) + 1)
    text = Text.from_ansi(Plot(data, width, height, log, colors, colorless=plain).draw())
    lines = text.plain.rstrip("\n").split("\n")
    assert len(lines) <= height
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("count", [1, 5, 12, 60, 5000])
def test_axis_ticks_are_numbers_of_kernels(count: int) -> None:
    data = ChartData({"a": {index: 1000.0 + index for index in range(count)}})
    plot = Plot(data, 70, 14, False, ["#58a6ff", "#888888"], colorless=False)
    lines = Text.from_ansi(plot.draw()).plain.rstrip().split("\n")
    labels = lines[-2].split()
    assert labels[0] == "1"
    assert [int(label) for label in labels] == sorted({int(label) for label in labels})


def test_bars_stay_where_they_are_while_kernels_finish() -> None:
    def first_bar(count: int) -> int:
        data = ChartData({"a": dict.fromkeys(range(count), 1000.0), "b": {}}, expected=12)
        plot = Plot(data, 70, 14, False, ["#58a6ff"] * 3, colorless=True)
        return min(line.index("█") for line in Text.from_ansi(plot.draw()).plain.split("\n") if "█" in line)

    assert first_bar(1) == first_bar(5) == first_bar(12)


def test_nothing_is_drawn_off_scale() -> None:
    plot = Plot(ChartData({"a": {0: 812.0, 1: 99_000.0}}), 60, 14, True, ["#58a6ff", "#888888"], colorless=False)
    assert plot.unit == "µs"
    assert not math.isnan(plot.left)


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_colours_can_be_read(theme: object) -> None:
    from textual.color import Color
    from textual.theme import Theme

    assert isinstance(theme, Theme)
    names = {"primary", "secondary", "success", "warning", "error", "foreground"}
    variables = {name: str(getattr(theme, name)) for name in names} | theme.variables
    for name in (*names, "text-muted"):
        for behind in ("background", "panel"):
            ratio = _contrast(Color.parse(variables[name]), Color.parse(str(getattr(theme, behind))))
            assert ratio >= 4.5, (name, behind, ratio)


def _contrast(one: object, other: object) -> float:
    from textual.color import Color

    def luminance(c: Color) -> float:
        parts = [v / 255 for v in c.rgb]
        linear = [v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    assert isinstance(one, Color)
    assert isinstance(other, Color)
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_unknown_and_automatic_colours_are_the_terminals_own() -> None:
    assert color({"x": "auto 60%"}, "x") == "default"
    assert color({}, "x") == "default"
    assert color({"x": "ansi_red"}, "x") == "default"
    assert color({"x": "#58a6ff"}, "x") == "#58A6FF"


# -- the table -------------------------------------------------------------------------------


class TableApp(App[None]):
    """One table."""

    def __init__(self) -> None:
        super().__init__()
        self.table = LiveTable([Column("a", "a", 10), Column("b", "b", 5, priority=1)])
        self.told: list[tuple[str, str | None]] = []

    def compose(self) -> ComposeResult:
        yield self.table

    def on_live_table_chosen(self, event: LiveTable.Chosen) -> None:
        self.told.append((type(event).__name__, event.key))


def rows_of(*keys: str, b: str = "x") -> list[Row]:
    return [Row(key, {"a": Text(key), "b": Text(b)}) for key in keys]


async def test_the_cursor_stays_on_its_row() -> None:
    app = TableApp()
    async with app.run_test(size=(40, 10)) as pilot:
        app.table.show(rows_of("one", "two", "three"))
        await pilot.pause()
        await pilot.press("j")
        assert app.table.chosen == "two"
        app.table.show(rows_of("new", "one", "two", "three"))
        await pilot.pause()
        assert (app.table.chosen, app.table.cursor_row) == ("two", 2)
        app.table.show(rows_of("new", "three"))
        await pilot.pause()
        assert app.table.chosen == "three"
        await pilot.resize_terminal(10, 5)
        await pilot.pause()
        assert app.table.chosen == "three"
        assert [key for _, key in app.told] == ["one", "two", "three"]


async def test_only_changed_cells_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    app = TableApp()
    written: list[object] = []
    async with app.run_test(size=(40, 10)) as pilot:
        app.table.show(rows_of("one", "two"))
        await pilot.pause()
        update = app.table.update_cell

        def note(*args: Any, **kwargs: Any) -> None:
            written.append(args[:2])
            update(*args, **kwargs)

        monkeypatch.setattr(app.table, "update_cell", note)
        app.table.show(rows_of("one", "two"))
        assert written == []
        app.table.show([*rows_of("one"), *rows_of("two", b="y")])
        assert written == [("two", "b")]


async def test_a_row_chosen_beforehand_is_found_when_it_comes() -> None:
    app = TableApp()
    async with app.run_test(size=(40, 10)) as pilot:
        app.table.choose("two")
        app.table.show(rows_of("one", "two"))
        await pilot.pause()
        assert (app.table.chosen, app.table.cursor_row) == ("two", 1)
