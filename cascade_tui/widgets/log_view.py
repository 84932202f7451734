"""A log of any length: draws only the lines in sight, follows its end until told otherwise."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import getters
from textual.binding import BindingType
from textual.cache import LRUCache
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from cascade_tui.format import safe_text
from cascade_tui.keymap import bindings
from cascade_tui.log_buffer import LogBuffer

from .paint import paint

if TYPE_CHECKING:
    from cascade_tui.app import CascadeApp

_LAUNCH = re.compile(r"^launching kernel name: |^kernel_name = ")
_TROUBLE = re.compile(r"\berror\b|\bassert|\babort|deadlock|segmentation fault|exception", re.IGNORECASE)
_GUTTER_FROM = 60
"""Line numbers are shown from this width on."""


class LogView(ScrollView, can_focus=True, inherit_bindings=False):
    """Shows a `LogBuffer`; lines are text from outside and are cleaned as they are drawn."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("log")]
    CONTEXT = "log"
    ALLOW_SELECT = False

    if TYPE_CHECKING:
        app = getters.app(CascadeApp)

    following = reactive(True, init=False)
    """Whether the view stays at the log's end."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._buffer: LogBuffer | None = None
        self._drawn = (0, 0)
        self._left_at = 0
        self._strips: LRUCache[tuple[int, str, int], Strip] = LRUCache(1024)
        self._own_scroll = False
        self._base = Style.null()

    @property
    def new_lines(self) -> int:
        """Lines that came since following stopped."""
        return 0 if self.following or self._buffer is None else max(0, self._buffer.end - self._left_at)

    @property
    def number_width(self) -> int:
        """Columns taken by line numbers, 0 where there is no room for them."""
        if self._buffer is None or self.size.width < _GUTTER_FROM:
            return 0
        return max(4, len(str(self._buffer.end))) + 1

    def show(self, buffer: LogBuffer | None) -> None:
        """Show another log, from its end."""
        if buffer is not self._buffer:
            self._buffer = buffer
            self._drawn = (0, 0)
            self._strips.clear()
            self.following = True
            self.scroll_x = 0
            self.sync(force=True)
        else:
            self.sync()

    def sync(self, *, force: bool = False) -> None:
        """Show what came to the log since the last call."""
        buffer = self._buffer
        now = (buffer.first, buffer.end) if buffer is not None else (0, 0)
        if now == self._drawn and not force:
            return
        dropped = now[0] - self._drawn[0]
        self._drawn = now
        self._measure()
        if self.following:
            self._to_end()
        elif dropped:
            # The same lines stay in sight while older ones go, or are fetched, above them.
            self._scroll_self(max(0, self.scroll_offset.y - dropped))
        self.refresh()

    def on_resize(self) -> None:
        """Keep the end in sight."""
        self._measure()
        if self.following:
            self._to_end()

    def _measure(self) -> None:
        first, end = self._drawn
        buffer = self._buffer
        # Only lines near the end are measured: the width need not be exact, it bounds scrolling sideways.
        recent = buffer.slice(max(first, end - 500), end) if buffer is not None else []
        widest = max((len(line) for line in recent), default=0)
        self.virtual_size = Size(
            max(self.virtual_size.width if self.scroll_x else 0, widest + self.number_width), end - first
        )

    def _to_end(self) -> None:
        self._scroll_self(max(0, self.virtual_size.height - self.size.height))

    def _scroll_self(self, y: int) -> None:
        self._own_scroll = True
        self.scroll_to(y=y, animate=False, force=True, immediate=True)
        self._own_scroll = False

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Stop following when scrolled up by key, wheel or bar; go on when the end is reached."""
        super().watch_scroll_y(old_value, new_value)
        if not self._own_scroll and self._buffer is not None:
            self._set_following(round(new_value) >= self.max_scroll_y)

    def _set_following(self, following: bool) -> None:
        if self.following and not following and self._buffer is not None:
            self._left_at = self._buffer.end
        self.following = following

    # -- keys --------------------------------------------------------------------------------

    def action_follow(self) -> None:
        """Go to the end and stay there."""
        self._set_following(True)
        self._to_end()

    def action_move(self, lines: int) -> None:
        """Scroll by lines."""
        self.scroll_to(y=self.scroll_offset.y + lines, animate=False, immediate=True)

    def action_page(self, pages: int) -> None:
        """Scroll by pages, leaving one line in sight."""
        self.action_move(pages * max(1, self.size.height - 1))

    def action_scroll_top(self) -> None:
        """Go to the first line held."""
        self.scroll_to(y=0, animate=False, immediate=True)

    def action_sideways(self, columns: int) -> None:
        """Scroll sideways."""
        self.scroll_to(x=self.scroll_offset.x + columns, animate=False, immediate=True)

    # -- drawing -----------------------------------------------------------------------------

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw the lines in sight, with one look at the style for all of them."""
        self._base = self.rich_style
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """Draw one line of the view."""
        scroll_x, scroll_y = self.scroll_offset
        width = self.size.width
        index = y + scroll_y
        if self._buffer is None or not 0 <= index < len(self._buffer):
            return Strip.blank(width, self._base)
        gutter = self.number_width
        strip = self._strip(self._buffer.first + index, self._buffer[index])
        strip = strip.crop_extend(scroll_x, scroll_x + width - gutter, None).apply_style(self._base)
        if not gutter:
            return strip
        muted = self._base + paint(self.app.theme_variables, "faint")
        label = f"{self._buffer.first + index + 1:>{gutter - 1}} "
        return Strip.join([Strip([Segment(label, muted)], gutter), strip])

    def _strip(self, number: int, line: str) -> Strip:
        key = (number, self.app.theme, len(line))
        strip = self._strips.get(key)
        if strip is None:
            text = Text(safe_text(line), no_wrap=True, end="")
            text.stylize(self._style(text.plain))
            strip = Strip(text.render(self.app.console))
            self._strips[key] = strip
        return strip

    def _style(self, line: str) -> Style:
        variables = self.app.theme_variables
        if _LAUNCH.match(line):
            return paint(variables, "primary", bold=True)
        if _TROUBLE.search(line[:500]):
            return paint(variables, "error")
        return Style.null()
