"""The keys of a screen, out of the registry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Static

from cascade_tui.keymap import Action, groups, screen_actions
from cascade_tui.widgets.key_bar import KeyBar
from cascade_tui.widgets.paint import Variables, paint

from .base import Dialog, dialog_bindings

TWO_FROM = 116
"""Columns of the terminal from which on the keys stand in two columns."""


class _Body(VerticalScroll, inherit_bindings=False, can_focus=False):
    """Scrolls by the screen's keys."""


class HelpScreen(Dialog[None]):
    """Every key of one screen, in groups."""

    CSS_PATH = "dialogs.tcss"
    CONTEXT = "help"
    BINDINGS: ClassVar[list[BindingType]] = dialog_bindings("help")

    def __init__(self, context: str) -> None:
        super().__init__()
        self._of = context

    def compose(self) -> ComposeResult:
        """Title and keys."""
        two = " -two" if self.app.size.width >= TWO_FROM else ""
        with Vertical(classes=f"dialog -help{two}"):
            yield Static(f"Keys · {self._of.replace('_', ' ')}", markup=False, classes="dialog-title")
            with _Body(), Horizontal(classes="help-columns"):
                for column in self._columns():
                    yield Static(column, markup=False, classes="help-column")
        yield KeyBar()

    def _columns(self) -> list[Text]:
        variables, parts = self.app.theme_variables, groups(screen_actions(self._of))
        if self.app.size.width < TWO_FROM:
            return [help_text(parts, variables)]
        half = (sum(len(members) + 2 for members in parts.values()) + 1) // 2
        left: dict[str, list[Action]] = {}
        while parts and sum(len(members) + 2 for members in left.values()) + 2 < half:
            group = next(iter(parts))
            left[group] = parts.pop(group)
        return [help_text(part, variables) for part in (left, parts) if part]

    def action_close(self) -> None:
        """Close the help."""
        self.close(None)

    def action_scroll(self, lines: int) -> None:
        """Scroll by lines."""
        self.query_one(_Body).scroll_relative(y=lines, animate=False)


def help_text(parts: Mapping[str, Sequence[Action]], variables: Variables) -> Text:
    """Actions by group: keys at the left, what they do at the right."""
    width = max(len(action.keys_text) for members in parts.values() for action in members) + 2
    text = Text()
    for group, members in parts.items():
        text.append(f"{group}\n", paint(variables, "text-muted", bold=True))
        for action in members:
            text.append(f"  {action.keys_text:<{width}}", paint(variables, "primary", bold=True))
            text.append(f"{action.text}\n")
        text.append("\n")
    text.rstrip()
    return text
