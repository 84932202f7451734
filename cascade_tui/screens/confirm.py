"""A question with a safe answer, which is chosen until told otherwise."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.reactive import reactive
from textual.widgets import Static

from cascade_tui.format import safe_text
from cascade_tui.widgets.key_bar import KeyBar

from .base import Dialog, dialog_bindings


class _Choice(Static):
    """One answer."""

    def __init__(self, label: str, index: int) -> None:
        super().__init__(f" {safe_text(label)} ", markup=False, classes="choice")
        self._index = index

    def on_click(self, event: events.Click) -> None:
        """Answer by mouse."""
        event.stop()
        screen = self.screen
        if isinstance(screen, Confirm):
            screen.close(self._index == 1)


class Confirm(Dialog[bool]):
    """Asks; gives True only for a yes."""

    CSS_PATH = "dialogs.tcss"
    CONTEXT = "confirm"
    BINDINGS: ClassVar[list[BindingType]] = dialog_bindings("confirm")

    chosen = reactive(0, init=False)
    """0 for no, 1 for yes."""

    def __init__(self, title: str, text: str, *, yes: str, no: str) -> None:
        super().__init__()
        self._title = title
        self._text = text
        self._labels = (no, yes)

    def compose(self) -> ComposeResult:
        """Title, text and two answers."""
        with Vertical(classes="dialog"):
            yield Static(safe_text(self._title), markup=False, classes="dialog-title")
            yield Static(safe_text(self._text), markup=False, classes="dialog-text")
            with Horizontal(classes="choices"):
                for index, label in enumerate(self._labels):
                    yield _Choice(f"{label} ({'ny'[index]})", index)
        yield KeyBar()

    def on_mount(self) -> None:
        """Mark the safe answer."""
        self._mark()

    def watch_chosen(self) -> None:
        """Mark the chosen answer."""
        self._mark()

    def _mark(self) -> None:
        for index, choice in enumerate(self.query(_Choice)):
            choice.set_class(index == self.chosen, "-chosen")

    def action_yes(self) -> None:
        """Answer yes."""
        self.close(True)

    def action_no(self) -> None:
        """Answer no."""
        self.close(False)

    def action_press(self) -> None:
        """Give the chosen answer."""
        self.close(self.chosen == 1)

    def action_move(self, step: int) -> None:
        """Choose the other answer."""
        self.chosen = min(1, max(0, self.chosen + step))
