"""The app: owns the client, the store and the link, and goes between screens."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, ClassVar, TypeVar

from textual.app import App
from textual.binding import BindingType
from textual.dom import DOMNode
from textual.screen import Screen

from cascade_server.contract.client import CascadeClient

from . import themes
from .commands import ActionProvider
from .format import safe_text
from .keymap import Action, bindings
from .messages import ConnectionChanged, StoreChanged
from .screens.base import Dialog, LiveScreen
from .screens.help import HelpScreen
from .screens.new_run import NewRunScreen
from .screens.run import RunScreen
from .screens.runs import RunsScreen
from .screens.traces import TracesScreen
from .store import Store
from .sync import Pace, Sync

T = TypeVar("T")


def utc_now() -> datetime:
    """The time by this machine's clock."""
    return datetime.now(UTC)


class CascadeApp(App[None], inherit_bindings=False):
    """Cascade in a terminal. `now` gives the time that ages and elapsed times are told by."""

    TITLE = "Cascade"
    CSS_PATH = "cascade.tcss"
    COMMANDS: ClassVar[set[Any]] = {ActionProvider}
    MODES: ClassVar[dict[str, str | Callable[[], Screen[Any]]]] = {"traces": TracesScreen, "runs": RunsScreen}
    DEFAULT_MODE = "traces"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("app")]
    ENABLE_COMMAND_PALETTE = True
    ESCAPE_TO_MINIMIZE = False

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        store: Store | None = None,
        now: Callable[[], datetime] = utc_now,
        pace: Pace | None = None,
        live: bool = True,
    ) -> None:
        super().__init__()
        self.url = url
        self.now = now
        self.store = store or Store()
        self.client = CascadeClient(url, token, timeout_s=10.0)
        self.sync = Sync(self.client, self.store, self, pace=pace)
        self._live = live
        for theme in themes.THEMES:
            self.register_theme(theme)
        self.theme = themes.DARK

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our own variables, for themes that lack them."""
        return dict(themes.VARIABLES)

    async def on_mount(self) -> None:
        """Connect and begin to poll."""
        self.theme_changed_signal.subscribe(self, lambda _theme: self._theme_changed())
        if self._live:
            await self.client.__aenter__()
            self.sync.start()

    async def on_unmount(self) -> None:
        """Close the connections."""
        await self.client.close()

    def start(self, work: Coroutine[Any, Any, None], group: str) -> None:
        """Run work for the sync in a worker of the app, ending the one that ran in `group`."""
        if self._live:
            self.run_worker(work, group=group, exclusive=True)
        else:
            work.close()

    # -- news --------------------------------------------------------------------------------

    def _screens(self) -> list[LiveScreen | Dialog[Any]]:
        return [screen for screen in self.screen_stack if isinstance(screen, LiveScreen | Dialog)]

    def on_store_changed(self, event: StoreChanged) -> None:
        """Let the screens in sight read the store."""
        event.stop()
        for screen in self._screens():
            screen.request_flush()

    def on_connection_changed(self, event: ConnectionChanged) -> None:
        """Let the screens show the link."""
        event.stop()
        for screen in self._screens():
            screen.connection_changed()

    def _theme_changed(self) -> None:
        for screen in self._screens():
            screen.theme_changed()

    def tell_error(self, sentence: str) -> None:
        """Show an error that has no place of its own."""
        self.notify(safe_text(sentence), severity="error", timeout=10, markup=False)

    # -- ways --------------------------------------------------------------------------------

    def show(self, screen: Screen[T], then: Callable[[T | None], None] | None = None) -> None:
        """Show a screen on top; `then` takes what it gives."""
        # Not awaited: the screen may mount while the handler that opened it goes on.
        _ = self.push_screen(screen, then)

    def leave_screen(self) -> None:
        """Close the screen on top."""
        _ = self.pop_screen()

    def open_run(self, run_id: str) -> None:
        """Show a run on top of the list it was chosen from."""
        if not (isinstance(self.screen, RunScreen) and self.screen.run_id == run_id):
            self.show(RunScreen(run_id))

    def ask_new_run(self, trace_id: str) -> None:
        """Ask for a run of a trace, and show the run that comes of it."""
        trace = self.store.trace(trace_id)
        if trace is not None:
            self.show(NewRunScreen(trace), lambda run_id: self.open_run(run_id) if run_id else None)

    async def show_trace(self, trace_id: str) -> None:
        """Go to the traces with the cursor on this one."""
        await self.action_goto("traces")
        if isinstance(self.screen, TracesScreen):
            self.screen.choose(trace_id)

    async def action_goto(self, mode: str) -> None:
        """Go to a list; what was opened from the one at hand is closed."""
        while len(self.screen_stack) > 1:
            await self.pop_screen()
        if self.current_mode != mode:
            await self.switch_mode(mode)

    def do_action(self, action: Action, node: DOMNode) -> None:
        """Do an action as its key would, on the node it belongs to."""
        self.call_later(self.run_action, action.call, default_namespace=node)

    def action_show_keys(self) -> None:
        """Show the keys of the screen at hand."""
        context = getattr(self.screen, "CONTEXT", None)
        if context is not None:
            self.show(HelpScreen(context))

    def action_toggle_theme(self) -> None:
        """Change between dark and light."""
        self.theme = themes.LIGHT if self.theme == themes.DARK else themes.DARK

    def action_interrupt(self) -> None:
        """Copy the selection where there is one, else leave."""
        selected = self.screen.get_selected_text()
        if selected:
            self.copy_to_clipboard(selected)
            self.screen.clear_selection()
        else:
            self.exit()
