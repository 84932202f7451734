"""The top line: where one is, and how the server is reached."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.text import Text
from textual import getters
from textual.timer import Timer
from textual.widget import Widget

from cascade_tui.format import duration, safe_text
from cascade_tui.sync import Link

from .paint import joined, paint, spread

if TYPE_CHECKING:
    from cascade_tui.app import CascadeApp

_LINKS = {
    Link.CONNECTING: ("◌", "connecting", "text-muted"),
    Link.LIVE: ("●", "live", "success"),
    Link.RECONNECTING: ("◌", "reconnecting", "warning"),
    Link.OFFLINE: ("○", "offline", "error"),
    Link.REFUSED: ("✗", "token refused", "error"),
}


class StatusBar(Widget):
    """One line: the path of screens at the left, the link at the right."""

    DEFAULT_CSS = """
    StatusBar { height: 1; width: 1fr; padding: 0 1; }
    """

    if TYPE_CHECKING:
        app = getters.app(CascadeApp)

    def __init__(self, *path: str) -> None:
        super().__init__()
        self._path = [safe_text(part) for part in path]
        self._countdown: Timer | None = None

    def on_mount(self) -> None:
        """Prepare the countdown, which ticks only while the server is away."""
        self._countdown = self.set_interval(1.0, self.refresh, pause=True)
        self.connection_changed()

    def connection_changed(self) -> None:
        """Show the link as it is now."""
        if self._countdown is not None:
            if self.app.sync.connection.next_try is None:
                self._countdown.pause()
            else:
                self._countdown.resume()
        self.refresh()

    def render(self) -> Text:
        """Draw the line for the width there is."""
        variables = self.app.theme_variables
        muted = paint(variables, "text-muted")
        parts = [Text("cascade", paint(variables, "primary", bold=True))]
        parts += [Text(part, "bold" if part is self._path[-1] else muted) for part in self._path]
        return spread(joined(parts, " › ", muted), self._link(), self.size.width)

    def _link(self) -> Text:
        sync, variables = self.app.sync, self.app.theme_variables
        glyph, word, color = _LINKS[sync.connection.link]
        text = Text(f"{glyph} {word}", paint(variables, color, bold=True))
        seconds = sync.seconds_to_next_try()
        if seconds is not None:
            when = f"next try in {duration(math.ceil(seconds))}" if seconds > 0 else "trying now"
            text.append(f" · {when}", paint(variables, color))
        where = safe_text(self.app.url.removeprefix("http://"))
        if self.size.width >= 70 and seconds is None:
            text.append(f"  {where}", paint(variables, "text-muted"))
        return text
