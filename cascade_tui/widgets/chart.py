"""Simulated time per kernel and config, drawn with plotext.

The only module that knows plotext. Its one figure per process is safe to share: drawing never yields.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import plotext
from rich.text import Text
from textual import getters
from textual.color import Color
from textual.timer import Timer
from textual.widget import Widget

from cascade_tui.format import safe_text, time_unit
from cascade_tui.themes import SERIES, color

from .paint import paint

if TYPE_CHECKING:
    from cascade_tui.app import CascadeApp

MIN_WIDTH, MIN_HEIGHT = 24, 6
"""Below this a chart says nothing, and says so."""

REDRAW_S = 1.0

_FULL = re.compile("\x1b\\[38;2;([0-9;]+)m(█+)\x1b\\[0m")

_SHADES = ("█", "▒", "░", "▚", "#", "*")
"""Bars of different configs without colour."""

_DOTS = ("braille", "x", "o", "+", "#", "*")
"""The same for lines."""

plotext.terminal.limit(False, False)  # else sizes are clamped to the terminal the app runs in


@dataclass(frozen=True, slots=True)
class ChartData:
    """What to draw: times in ns by config (in order) and kernel index (from 0); finite and above 0."""

    times: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    marked: frozenset[str] = frozenset()
    """Configs whose numbers don't describe the trace."""
    expected: int = 0
    """Kernels to come in all: room is kept for them where bars fit, so that those drawn stay where they are."""

    @property
    def count(self) -> int:
        """Kernels up to the last one that a config finished; 0 when there is nothing to draw."""
        return max((index + 1 for by_kernel in self.times.values() for index in by_kernel), default=0)


class KernelChart(Widget, can_focus=True):
    """Grouped bars where they fit, else lines; redrawn at most once a second, and only when in sight."""

    if TYPE_CHECKING:
        app = getters.app(CascadeApp)

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.log_scale = False
        self._data = ChartData()
        self._drawn_at = -math.inf
        self._later: Timer | None = None

    def show(self, data: ChartData) -> None:
        """Draw other data, now or when the last drawing is a second old."""
        if data == self._data:
            return
        self._data = data
        wait = self._drawn_at + REDRAW_S - time.monotonic()
        if wait <= 0:
            self._redraw()
        elif self._later is None:
            self._later = self.set_timer(wait, self._redraw)

    def toggle_scale(self) -> None:
        """Change between the linear and the logarithmic scale."""
        self.log_scale = not self.log_scale
        self._redraw()

    def _redraw(self) -> None:
        self._later = None
        self._drawn_at = time.monotonic()
        self.refresh()

    def render(self) -> Text:
        """Draw the chart, or the reason why there is none."""
        width, height = self.size
        muted = paint(self.app.theme_variables, "text-muted")
        if not self._data.count:
            return Text("\n  No data yet: no kernel has finished.", muted)
        if width < MIN_WIDTH or height < MIN_HEIGHT:
            return Text("too small for a chart", muted)
        plot = Plot(self._data, width, height - 1, self.log_scale, self._colors(), colorless=self.app.no_color)
        legend = self._legend(width, plot)
        return Text("\n", end="").join([legend, Text.from_ansi(plot.draw(), no_wrap=True, end="")])

    def _colors(self) -> list[str]:
        variables = self.app.theme_variables
        return [color(variables, f"series-{1 + i % SERIES}") for i in range(len(self._data.times))] + [
            color(variables, "text-muted")
        ]

    def _legend(self, width: int, plot: Plot) -> Text:
        variables, muted = self.app.theme_variables, paint(self.app.theme_variables, "text-muted")
        line = Text(f"{plot.unit:>{plot.left - 1}} ", muted, no_wrap=True)
        for index, config in enumerate(self._data.times):
            style = paint(variables, f"series-{1 + index % SERIES}", bold=True)
            line.append("  " if index else " ")
            line.append(plot.sign(index), style)
            line.append(f" {'≈' if config in self._data.marked else ''}{safe_text(config)}", style)
        line.truncate(width, overflow="ellipsis")
        return line


class Plot:
    """One drawing of chart data in `width` × `height` cells."""

    def __init__(
        self, data: ChartData, width: int, height: int, log_scale: bool, colors: Sequence[str], *, colorless: bool
    ) -> None:
        self._data = data
        self._width, self._height = width, height
        self._colors = colors
        self._colorless = colorless
        values = [value for by_kernel in data.times.values() for value in by_kernel.values()]
        self._divisor, self.unit = time_unit(max(values))
        self._log = log_scale
        self._base = math.floor(math.log10(min(values) / self._divisor)) if log_scale else 0
        self._top, self._ticks = self._scale(max(map(self._y, values)))
        self.left = max(len(label) for label in self._ticks.values()) + 1
        """Columns left of the canvas: tick labels and the axis."""
        self._canvas = width - self.left
        self._series = len(data.times)
        self._count = max(data.count, data.expected)
        self._bar = self._bar_width()
        if not self._bar:
            self._count = data.count
            self._bar = self._bar_width()

    def sign(self, index: int) -> str:
        """The legend's sign of a config."""
        if self._colorless:
            return (_SHADES if self._bar else _DOTS)[index % SERIES].replace("braille", "⠶")
        return "■" if self._bar else "━"

    def draw(self) -> str:
        """The drawing as lines with ANSI colours."""
        figure = self._frame()
        for index, by_kernel in enumerate(self._data.times.values()):
            if self._bar:
                self._draw_bars(figure, index, by_kernel)
            else:
                self._draw_line(figure, index, by_kernel)
        drawing = str(figure.build().string())
        # Full cells as coloured background: a full block's glyph leaves seams between lines in many fonts.
        return drawing if self._colorless else _FULL.sub(_as_background, drawing)

    def _y(self, nanoseconds_: float) -> float:
        value = nanoseconds_ / self._divisor
        return math.log10(value) - self._base if self._log else value

    def _scale(self, highest: float) -> tuple[float, dict[float, str]]:
        if self._log:
            decades = max(1, math.ceil(highest - 1e-9))
            return float(decades), {float(i): f"{10.0 ** (i + self._base):g}" for i in range(decades + 1)}
        wanted = highest / max(2, self._height // 4)
        power = 10.0 ** math.floor(math.log10(wanted))
        step = next(power * m for m in (1, 2, 5, 10) if power * m >= wanted * 0.999)
        top = step * math.ceil(highest / step - 1e-9)
        count = round(top / step)
        return top, {i * step: f"{i * step:g}" for i in range(count + 1)}

    def _bar_width(self) -> int:
        """Cells of one bar, 0 where bars don't fit: a gap stands between groups."""
        group = self._canvas // self._count
        return min(4, (group - 1) // self._series)

    def _frame(self) -> Any:
        figure = plotext.figure
        figure.clear()
        text = plotext.pixel(foreground=_rgb(self._colors[-1]))
        plotext.add_theme("cascade", canvas="default", text=text)
        figure.theme("cascade")
        figure.plot_size(self._width, self._height)
        figure.axes(False, side=1)
        figure.legend(False)
        if self._height >= 10:
            figure.label("kernel, in the order they finished", axis="x")
        figure.ruler("y").lim(0, self._top)
        figure.ruler("x").lim(0, self._canvas)
        figure.ruler("x").alignment(lim="edge")
        figure.ruler("y").alignment(lim="edge")
        width = self.left - 1
        figure.ruler("y").ticks(list(self._ticks), labels=[label.rjust(width) for label in self._ticks.values()])
        figure.ruler("x").ticks(*self._x_ticks())
        return figure

    def _x_ticks(self) -> tuple[list[float], list[str]]:
        every = max(1, math.ceil(self._count * (len(str(self._count)) + 2) / self._canvas))
        every = next(step for step in _steps() if step >= every)
        chosen = [index for index in range(self._count) if index == 0 or (index + 1) % every == 0]
        if every > 1 and len(chosen) > 1 and chosen[1] < every / 2:
            del chosen[1]
        return [self._x(index) for index in chosen], [str(index + 1) for index in chosen]

    def _x(self, kernel: int) -> float:
        """The middle of a kernel's group, in cells from the canvas's left edge."""
        if self._bar:
            return self._start(kernel) + self._bar * self._series / 2
        return 0.5 + kernel * (self._canvas - 1) / max(1, self._count - 1)

    def _start(self, kernel: int) -> int:
        """The first cell of a kernel's bars; half of what is left over goes before the first."""
        spare = self._canvas // self._count - self._bar * self._series
        return kernel * self._canvas // self._count + (spare + 1) // 2

    def _marker(self, index: int, plain: str) -> Any:
        signs = _SHADES if self._bar else _DOTS
        sign = signs[index % SERIES] if self._colorless else plain
        return plotext.marker(sign, plotext.pixel(foreground=_rgb(self._colors[index])))

    def _draw_bars(self, figure: Any, index: int, by_kernel: Mapping[int, float]) -> None:
        xs, ys = [], []
        for kernel, value in by_kernel.items():
            start = self._start(kernel) + index * self._bar
            # Two points a cell, since the marker has two columns in one.
            xs += [start + 0.25 + half / 2 for half in range(2 * self._bar)]
            ys += [self._y(value)] * 2 * self._bar
        if xs:
            signal = figure.signal(xs, ys, marker=self._marker(index, "hd"))
            figure.draw(signal.density("full", scope="fill").fillx(True))

    def _draw_line(self, figure: Any, index: int, by_kernel: Mapping[int, float]) -> None:
        points = _thin([(self._x(kernel), self._y(value)) for kernel, value in sorted(by_kernel.items())])
        if points:
            xs, ys = [x for x, _ in points], [y for _, y in points]
            figure.draw(figure.signal(xs, ys, marker=self._marker(index, "braille")).lines(True))


def _thin(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Keep at most the lowest and the highest point of every column."""
    columns: dict[int, list[tuple[float, float]]] = {}
    for point in points:
        columns.setdefault(int(point[0]), []).append(point)
    out: list[tuple[float, float]] = []
    for column in columns.values():
        extremes = {min(column, key=lambda p: p[1]), max(column, key=lambda p: p[1])}
        out.extend(sorted(extremes))
    return out


def _steps() -> list[int]:
    return [m * 10**power for power in range(9) for m in (1, 2, 5)]


def _as_background(match: re.Match[str]) -> str:
    return f"\x1b[48;2;{match[1]}m{' ' * len(match[2])}\x1b[0m"


def _rgb(name: str) -> tuple[int, int, int] | str:
    return "default" if name == "default" else Color.parse(name).rgb
