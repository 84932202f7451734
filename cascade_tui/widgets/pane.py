"""Panes: a title line and a body, numbered, that can take the whole room or share it as tabs."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.widget import Widget

from .line import Line
from .paint import paint, spread


class PaneTitle(Widget):
    """A pane's title line; where panes share their room it names the others too, as tabs."""

    DEFAULT_CSS = """
    PaneTitle { height: 1; width: 1fr; background: $panel; }
    """

    class Pressed(Message):
        """A click on a name in the line."""

        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

    def __init__(self, number: int, name: str, siblings: Sequence[tuple[int, str]]) -> None:
        super().__init__()
        self._number = number
        self._tabs = tuple(siblings) or ((number, name),)
        self._left = Text()
        self._right = Text()
        self._ends: list[tuple[int, int]] = []

    def tell(self, left: Text, right: Text | None = None) -> None:
        """Show something behind the name, and something at the right end."""
        new = (left, right or Text())
        if new != (self._left, self._right):
            self._left, self._right = new
            self.refresh()

    def render(self) -> Text:
        """Draw the line for the width there is."""
        variables = self.app.theme_variables
        muted = paint(variables, "text-muted")
        focused = isinstance(self.parent, Pane) and self.parent.has_focus_within
        shared = self.screen.has_class("-narrow")
        line = Text(no_wrap=True)
        self._ends = []
        for number, name in self._tabs:
            if number != self._number and not shared:
                continue
            mine = number == self._number
            accent = paint(variables, "primary" if focused else "foreground", bold=True)
            line.append("▌" if mine and focused else " ", paint(variables, "primary"))
            if number:
                line.append(f"{number} ", accent if mine else muted)
            line.append(name, accent if mine else muted)
            if mine and self._left:
                line.append(" ")
                line.append_text(self._left)
            line.append(" ")
            self._ends.append((line.cell_len, number))
        right = self._right.copy()
        if right:
            right.append(" ")
        return spread(line, right, self.size.width)

    def on_click(self, event: events.Click) -> None:
        """Tell which name was pressed."""
        for end, number in self._ends:
            if event.x < end:
                self.post_message(self.Pressed(number))
                return


class Pane(Vertical):
    """A numbered pane around one body."""

    def __init__(self, number: int, name: str, body: Widget, siblings: Sequence[tuple[int, str]] = ()) -> None:
        super().__init__(id=f"pane-{number}")
        self.number = number
        self.body = body
        self.title_line = PaneTitle(number, name, siblings)
        self._empty = Line(classes="empty")

    def compose(self) -> ComposeResult:
        """Title above body."""
        yield self.title_line
        yield self._empty
        yield self.body

    def say(self, text: str) -> None:
        """Show a sentence above the body, such as why it is empty and what to do; "" takes it away."""
        self._empty.tell(text)

    def on_descendant_focus(self) -> None:
        """Mark the title."""
        self.title_line.refresh()

    def on_descendant_blur(self) -> None:
        """Unmark the title."""
        self.title_line.refresh()
