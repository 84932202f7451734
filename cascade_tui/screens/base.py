"""What all screens share: reading the store on their own timer, and panes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from textual import getters
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import ModalScreen, Screen, ScreenResultType
from textual.timer import Timer

from cascade_tui.keymap import bindings
from cascade_tui.widgets.key_bar import KeyBar
from cascade_tui.widgets.live_table import LiveTable
from cascade_tui.widgets.pane import Pane, PaneTitle
from cascade_tui.widgets.status_bar import StatusBar

if TYPE_CHECKING:
    from cascade_tui.app import CascadeApp

FLUSH_S = 0.25
"""Screens redraw at most so often: four times a second."""


class LiveScreen(Screen[None], inherit_bindings=False):
    """A full screen: status bar, body, footer. `flush` shows the store as it is; it is called when that changed."""

    CONTEXT: ClassVar[str]
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012 - as Textual declares it
    VERTICAL_BREAKPOINTS = [(0, "-tiny"), (14, "-short"), (30, "-tall")]  # noqa: RUF012
    TICK_S = 30.0
    """How often times such as an age are looked at, in seconds."""

    if TYPE_CHECKING:
        app = getters.app(CascadeApp)

    def __init__(self, *path: str) -> None:
        super().__init__()
        self.status_bar = StatusBar(*path)
        self._flushed_at = 0.0
        self._later: Timer | None = None

    def compose(self) -> ComposeResult:
        """Status bar, body, footer."""
        yield self.status_bar
        yield from self.compose_body()
        yield KeyBar()

    def compose_body(self) -> ComposeResult:
        """Widgets between status bar and footer."""
        raise NotImplementedError

    def flush(self) -> None:
        """Show the store as it is now. Cheap when nothing changed: widgets compare before they write."""
        raise NotImplementedError

    def on_mount(self) -> None:
        """Show what is known already."""
        self.set_interval(self.TICK_S, self.request_flush)
        self.connection_changed()
        self.flush_now()

    def on_screen_resume(self) -> None:
        """Catch up with what changed while another screen was on top."""
        if self.is_mounted:
            self.connection_changed()
            self.request_flush()

    def request_flush(self) -> None:
        """Flush now, or as soon as the last flush is `FLUSH_S` old."""
        if self._later is not None or not self.is_mounted:
            return
        wait = self._flushed_at + FLUSH_S - time.monotonic()
        if wait <= 0:
            self.flush_now()
        else:
            self._later = self.set_timer(wait, self.flush_now)

    def flush_now(self) -> None:
        """Flush without waiting."""
        self._later = None
        self._flushed_at = time.monotonic()
        if self.is_attached:
            self.flush()

    def connection_changed(self) -> None:
        """Dim what may be out of date, and say so in the status bar."""
        self.set_class(self.app.sync.connection.stale, "-stale")
        self.status_bar.connection_changed()

    def theme_changed(self) -> None:
        """Make anew what holds colours of the old theme."""
        for table in self.query(LiveTable):
            table.forget()
        self.flush_now()
        for widget in self.query("StatusBar, PaneTitle, KernelChart, KeyBar"):
            widget.refresh()


class PanedScreen(LiveScreen):
    """A screen of numbered panes: the first on top, the others below it, beside each other or as tabs.

    Going to the pane one is in already gives it all the room; again, or Esc, gives it back.
    """

    LOWER: ClassVar[tuple[int, ...]] = (2, 3)

    def on_mount(self) -> None:
        """Start in the first pane, with the second one's tab open."""
        self.add_class("-tab-2", "-at-1")
        super().on_mount()

    def pane(self, number: int) -> Pane:
        """A pane by number."""
        return self.query_one(f"#pane-{number}", Pane)

    @property
    def current_pane(self) -> int:
        """The number of the pane with the focus; the first where none has it."""
        return next((pane.number for pane in self.query(Pane) if pane.has_focus_within), 1)

    @property
    def zoomed(self) -> bool:
        """Whether one pane has all the room."""
        return self.has_class("-zoom")

    def action_pane(self, number: int) -> None:
        """Go to a pane, or give it all the room."""
        if self.current_pane == number and self.has_class(f"-at-{number}"):
            self.toggle_class("-zoom")
        else:
            self._open(number)
            self.pane(number).body.focus()

    def _open(self, number: int) -> None:
        """Bring a pane into sight."""
        if number in self.LOWER:
            for other in self.LOWER:
                self.set_class(other == number, f"-tab-{other}")
        for other in (1, *self.LOWER):
            self.set_class(other == number, f"-at-{other}")
        for pane in self.query(Pane):
            pane.title_line.refresh()

    def unzoom(self) -> bool:
        """Give every pane its room back; False when they had it."""
        if not self.zoomed:
            return False
        self.remove_class("-zoom")
        return True

    def on_descendant_focus(self) -> None:
        """Keep the pane with the focus in sight, however it came there."""
        number = self.current_pane
        if not self.has_class(f"-at-{number}"):
            self._open(number)

    def on_pane_title_pressed(self, event: PaneTitle.Pressed) -> None:
        """Go to a pane by its name."""
        event.stop()
        if self.current_pane != event.number:
            self.action_pane(event.number)


class Dialog(ModalScreen[ScreenResultType], inherit_bindings=False):
    """A dialog over a screen."""

    CONTEXT: ClassVar[str]
    AUTO_FOCUS = ""

    if TYPE_CHECKING:
        app = getters.app(CascadeApp)

    def close(self, result: ScreenResultType | None) -> None:
        """Leave the dialog with a result."""
        # Not awaited: the screen's own handler would wait for its own end.
        _ = self.dismiss(result)

    def connection_changed(self) -> None:
        """Nothing to do: the screen below says it."""

    def request_flush(self) -> None:
        """Show what changed in the store."""

    def theme_changed(self) -> None:
        """Make anew what holds colours of the old theme."""
        self.refresh(recompose=True)


def dialog_bindings(context: str) -> list[BindingType]:
    """A dialog's keys, as a list of the type that Textual wants."""
    return [*bindings(context)]
