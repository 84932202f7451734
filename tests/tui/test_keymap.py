"""The registry of keys."""

from __future__ import annotations

from collections import Counter

import pytest
from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import Screen

from cascade_tui.app import CascadeApp
from cascade_tui.keymap import ACTIONS, SCREENS, actions_of, bindings, key_text, screen_actions
from cascade_tui.screens.confirm import Confirm
from cascade_tui.screens.help import HelpScreen, help_text
from cascade_tui.screens.new_run import NewRunScreen
from cascade_tui.screens.run import RunScreen
from cascade_tui.screens.runs import RunsScreen
from cascade_tui.screens.traces import TracesScreen
from cascade_tui.themes import VARIABLES
from cascade_tui.widgets.live_table import LiveTable
from cascade_tui.widgets.log_view import LogView

OWNERS: dict[str, type[DOMNode]] = {
    "app": CascadeApp,
    "traces": TracesScreen,
    "runs": RunsScreen,
    "run": RunScreen,
    "new_run": NewRunScreen,
    "confirm": Confirm,
    "help": HelpScreen,
    "table": LiveTable,
    "log": LogView,
}


@pytest.mark.parametrize("screen", SCREENS)
def test_no_key_means_two_things_at_once(screen: str) -> None:
    for alive in SCREENS[screen]:
        keys = Counter(key for context in alive for action in actions_of(context) for key in action.keys)
        assert [key for key, count in keys.items() if count > 1] == []


def test_every_action_belongs_to_something_that_does_it() -> None:
    for action in ACTIONS.values():
        owner = OWNERS[action.context]
        name = action.call.partition("(")[0]
        assert hasattr(owner, f"action_{name}"), f"{action.id}: {owner.__name__} has no action_{name}"


@pytest.mark.parametrize(("context", "owner"), OWNERS.items())
def test_classes_bind_what_the_registry_says_and_nothing_else(context: str, owner: type[DOMNode]) -> None:
    bound = {
        (binding.key, binding.action) for binds in owner._merge_bindings().key_to_bindings.values() for binding in binds
    }
    assert bound == {(b.key, b.action) for b in Binding.make_bindings(bindings(context))}


def test_no_key_needs_a_function_key_or_alt() -> None:
    for action in ACTIONS.values():
        for key in action.keys:
            assert not key.startswith(("alt+", "f1")), action.id
            assert key not in {"ctrl+i", "ctrl+m", "ctrl+h", "ctrl+j"}, "the same key as another in old terminals"


@pytest.mark.parametrize("screen", SCREENS)
def test_the_help_names_every_key(screen: str) -> None:
    text = help_text({"all": screen_actions(screen)}, VARIABLES).plain
    for alive in SCREENS[screen]:
        for context in alive:
            for action in actions_of(context):
                assert action.text in text
                assert all(key_text(key) in text for key in action.keys)


def test_every_screen_of_the_app_is_in_the_registry() -> None:
    contexts = {context for context, owner in OWNERS.items() if issubclass(owner, Screen)}
    assert all(getattr(OWNERS[context], "CONTEXT", None) == context for context in contexts)
    assert contexts == set(SCREENS)


def test_hints_fit_the_footer_of_80_columns() -> None:
    for screen in SCREENS:
        for alive in SCREENS[screen]:
            shown = [a for context in alive for a in actions_of(context) if a.show and not a.family]
            panes = 14 if any(a.family for c in alive for a in actions_of(c)) else 0
            width = sum(len(a.display or key_text(a.keys[0])) + 1 + len(a.hint) + 2 for a in shown) + panes
            assert width <= 82, (screen, alive, width)
