"""The bottom line: the keys that do something here.

Textual's Footer makes a widget for each key anew whenever the focus moves, which costs more than all the rest of a
key press; this draws one line.
"""

from __future__ import annotations

from dataclasses import dataclass

from rich.text import Text
from textual import events
from textual.screen import Screen
from textual.widget import Widget

from cascade_tui.keymap import ACTIONS

from .paint import paint

GAP = 2
_STAYS = "app.help"
"""What is shown however narrow the line is: it leads to all the rest."""


@dataclass(frozen=True, slots=True)
class Hint:
    """Keys and the word for what they do."""

    ids: tuple[str, ...]
    keys: tuple[tuple[str, str], ...]
    """Each key as Textual names it, and as people read it."""
    word: str
    enabled: bool

    @property
    def width(self) -> int:
        """Columns taken."""
        return sum(len(shown) + 1 for _, shown in self.keys) + len(self.word)


class KeyBar(Widget):
    """Hints of the actions whose keys are alive, the focused widget's first."""

    DEFAULT_CSS = """
    KeyBar { dock: bottom; height: 1; width: 1fr; padding: 0 1; background: $panel; }
    """
    ALLOW_SELECT = False

    def __init__(self) -> None:
        super().__init__()
        self._places: list[tuple[int, int, str]] = []

    def on_mount(self) -> None:
        """Follow the focus."""
        self.screen.bindings_updated_signal.subscribe(self, self._changed)

    def _changed(self, _screen: Screen[object]) -> None:
        self.refresh()

    def hints(self) -> list[Hint]:
        """All hints, whether there is room for them or not."""
        found: dict[str, Hint] = {}
        for binding in self.screen.active_bindings.values():
            action = ACTIONS.get(binding.binding.id or "")
            if action is None or not action.show:
                continue
            name = action.family or action.id
            key = (binding.binding.key, binding.binding.key_display or binding.binding.key)
            old = found.get(name)
            if old is None:
                found[name] = Hint((action.id,), (key,), action.hint, binding.enabled)
            elif action.id not in old.ids:
                found[name] = Hint((*old.ids, action.id), (*old.keys, key), old.word, old.enabled)
        return list(found.values())

    def fitting(self, width: int) -> list[Hint]:
        """The hints there is room for: the last go first."""
        kept = self.hints()
        while kept and sum(hint.width + GAP for hint in kept) - GAP > width:
            droppable = [hint for hint in kept if _STAYS not in hint.ids]
            kept.remove(droppable[-1] if droppable else kept[-1])
        return kept

    def render(self) -> Text:
        """Draw the line for the width there is."""
        variables = self.app.theme_variables
        line = Text(no_wrap=True)
        self._places = []
        for hint in self.fitting(self.size.width):
            if line:
                line.append(" " * GAP)
            faint = paint(variables, "faint")
            for key, shown in hint.keys:
                self._places.append((line.cell_len, line.cell_len + len(shown), key))
                line.append(shown, paint(variables, "primary", bold=True) if hint.enabled else faint)
                line.append(" ")
            if len(hint.keys) == 1:
                self._places.append((line.cell_len, line.cell_len + len(hint.word), hint.keys[0][0]))
            line.append(hint.word, paint(variables, "text-muted") if hint.enabled else faint)
        return line

    async def on_click(self, event: events.Click) -> None:
        """Do as the key that was clicked."""
        event.stop()
        x = event.x - self.styles.padding.left
        for start, end, key in self._places:
            if start <= x < end:
                self.app.simulate_key(key)
                return
