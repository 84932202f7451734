"""The one registry of keys: what can be done, where, and by which keys.

A key exists only here. Widgets and screens take their bindings from `bindings(context)`; the footer, the help,
the palette and the documents read the same table. A context is a screen or a kind of widget; `SCREENS` says which
contexts are alive on a screen together, and no key may mean two things there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from textual.binding import Binding


@dataclass(frozen=True, slots=True)
class Action:
    """One thing a user can do.

    `id` is `context.name`, by which keys can be remapped; `call` is the Textual action that does it, looked up on
    the screen or widget of that context. `hint` is the word shown in the footer, where `show` asks for it.
    """

    id: str
    keys: tuple[str, ...]
    text: str
    group: str
    call: str
    hint: str = ""
    show: bool = False
    priority: bool = False
    display: str = ""
    family: str = ""
    """Actions of one family share one word in the footer."""

    @property
    def context(self) -> str:
        """The screen or kind of widget the action belongs to."""
        return self.id.partition(".")[0]

    @property
    def keys_text(self) -> str:
        """The keys as a person reads them: `j ↓`."""
        return "  ".join(key_text(key) for key in self.keys)


_NAMES = {
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "enter": "Enter",
    "escape": "Esc",
    "space": "Space",
    "tab": "Tab",
    "shift+tab": "Shift+Tab",
    "home": "Home",
    "end": "End",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "question_mark": "?",
    "plus": "+",
    "equals_sign": "=",
    "minus": "-",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
}


def key_text(key: str) -> str:
    """Name a key for people: `ctrl+p` is `^p`, `question_mark` is `?`."""
    if key in _NAMES:
        return _NAMES[key]
    return f"^{key[5:]}" if key.startswith("ctrl+") else key


def _action(
    id: str,  # noqa: A002 - the field's name
    keys: str,
    text: str,
    group: str,
    call: str = "",
    *,
    hint: str = "",
    priority: bool = False,
    display: str = "",
    family: str = "",
) -> Action:
    name = call or id.partition(".")[2]
    return Action(
        id, tuple(keys.split()), text, group, name, hint or family, bool(hint or family), priority, display, family
    )


_ALL = (
    # Everywhere
    _action("app.help", "question_mark", "Show the keys of this screen", "Anywhere", "show_keys", hint="help"),
    _action("app.palette", "ctrl+p", "Find an action by name", "Anywhere", "command_palette", hint="actions"),
    _action("app.traces", "t", "Go to the traces", "Anywhere", "goto('traces')"),
    _action("app.runs", "r", "Go to the runs", "Anywhere", "goto('runs')"),
    _action("app.theme", "ctrl+t", "Dark or light theme", "Anywhere", "toggle_theme"),
    _action("app.quit", "q", "Leave; sims go on running", "Anywhere", "quit", hint="leave"),
    _action(
        "app.interrupt", "ctrl+c ctrl+q", "Copy the selected text, or leave", "Anywhere", "interrupt", priority=True
    ),
    _action("app.next", "tab", "Go to the next pane", "Anywhere", "focus_next"),
    _action("app.previous", "shift+tab", "Go to the pane before", "Anywhere", "focus_previous"),
    # Screens
    _action("traces.new_run", "n", "Start a run of the trace", "Traces", hint="new run"),
    _action("traces.list", "1", "Go to the traces; again: all the room", "Traces", "pane(1)", family="panes"),
    _action("traces.kernels", "2", "Go to the kernels; again: all the room", "Traces", "pane(2)", family="panes"),
    _action(
        "traces.trace_runs", "3", "Go to the trace's runs; again: all the room", "Traces", "pane(3)", family="panes"
    ),
    _action("traces.back", "escape", "Give every pane its room back", "Traces"),
    _action("runs.back", "escape", "Go back to the traces", "Runs"),
    _action("run.cancel", "c", "Cancel the run (asks first)", "Run", hint="cancel run"),
    _action("run.sims", "1", "Go to the sims; again: all the room", "Run", "pane(1)", family="panes"),
    _action("run.log", "2", "Go to the log; again: all the room", "Run", "pane(2)", family="panes"),
    _action("run.chart", "3", "Go to the chart; again: all the room", "Run", "pane(3)", family="panes"),
    _action("run.log_scale", "s", "Chart: linear or logarithmic scale", "Run", "toggle_scale"),
    _action("run.trace", "T", "Go to the run's trace", "Run", "show_trace"),
    _action("run.back", "escape", "Go back", "Run", hint="back"),
    # Dialogs
    _action("new_run.take", "space", "Take a config, or leave it", "New run", hint="take"),
    _action("new_run.more", "plus equals_sign right l", "One sim more", "New run", hint="more", display="+"),
    _action("new_run.fewer", "minus left h", "One sim fewer", "New run", hint="fewer", display="-"),
    _action("new_run.launch", "enter", "Launch; for a sample: open its run", "New run", hint="launch"),
    _action("new_run.back", "escape q", "Close without launching", "New run", hint="close"),
    _action("confirm.yes", "y", "Yes", "Question", hint="yes"),
    _action("confirm.no", "n escape q", "No", "Question", hint="no"),
    _action("confirm.press", "enter space", "Press the chosen button", "Question"),
    _action("confirm.left", "left h", "Choose the button before", "Question", "move(-1)"),
    _action("confirm.right", "right l", "Choose the next button", "Question", "move(1)"),
    _action("help.close", "escape q question_mark enter", "Close the help", "Help", hint="close"),
    _action("help.down", "j down", "Scroll down", "Help", "scroll(1)"),
    _action("help.up", "k up", "Scroll up", "Help", "scroll(-1)"),
    # Kinds of widgets
    _action("table.open", "enter", "Open, or go into, the row", "Lists", "select_cursor", hint="open"),
    _action("table.down", "j down", "Next row", "Lists", "cursor_down"),
    _action("table.up", "k up", "Row before", "Lists", "cursor_up"),
    _action("table.top", "g home", "First row", "Lists", "scroll_top"),
    _action("table.bottom", "G end", "Last row", "Lists", "scroll_bottom"),
    _action("table.page_down", "ctrl+d pagedown", "Page down", "Lists", "page_down"),
    _action("table.page_up", "ctrl+u pageup", "Page up", "Lists", "page_up"),
    _action("log.follow", "G end", "Last line, and follow", "Log", hint="follow"),
    _action("log.down", "j down", "Line down", "Log", "move(1)"),
    _action("log.up", "k up", "Line up; following stops", "Log", "move(-1)"),
    _action("log.top", "g home", "First line that is here", "Log", "scroll_top"),
    _action("log.page_down", "ctrl+d pagedown", "Page down", "Log", "page(1)"),
    _action("log.page_up", "ctrl+u pageup", "Page up", "Log", "page(-1)"),
    _action("log.left", "h left", "Left", "Log", "sideways(-8)"),
    _action("log.right", "l right", "Right", "Log", "sideways(8)"),
)

ACTIONS: Mapping[str, Action] = {action.id: action for action in _ALL}
"""Every action by its id."""

SCREENS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "traces": (("app", "traces", "table"),),
    "runs": (("app", "runs", "table"),),
    "run": (("app", "run", "table"), ("app", "run", "log")),
    "new_run": (("new_run", "dialog_table"),),
    "confirm": (("confirm",),),
    "help": (("help",),),
}
"""For each screen the sets of contexts that are alive together, by focused widget; dialogs shut the app's out."""

_SHARED = {"dialog_table": ("table", frozenset({"table.open"}))}
"""Contexts that are another one without some actions: a dialog's list leaves Enter to its dialog."""


def actions_of(context: str) -> Iterator[Action]:
    """Give the actions of one context, in the order of the registry."""
    base, without = _SHARED.get(context, (context, frozenset()))
    return (action for action in _ALL if action.context == base and action.id not in without)


def screen_actions(screen: str) -> list[Action]:
    """All actions that can be done on a screen, its own first, each once."""
    contexts: list[str] = [screen]
    for alive in SCREENS[screen]:
        contexts.extend(context for context in alive if context not in contexts)
    return [action for context in contexts for action in actions_of(context)]


def bindings(*contexts: str) -> list[Binding]:
    """Textual bindings of contexts, for a `BINDINGS` of a class that inherits none."""
    return [_binding(action) for context in contexts for action in actions_of(context)]


def _binding(action: Action) -> Binding:
    return Binding(
        ",".join(action.keys),
        action.call,
        description=action.hint or action.text,
        show=action.show,
        key_display=action.display or key_text(action.keys[0]),
        priority=action.priority,
        tooltip=action.text,
        id=action.id,
    )


def groups(actions: Iterable[Action]) -> dict[str, list[Action]]:
    """Actions by their group, in the order met."""
    out: dict[str, list[Action]] = {}
    for action in actions:
        out.setdefault(action.group, []).append(action)
    return out
