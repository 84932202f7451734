"""The palette: every action of the registry that can be done on the screen at hand."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, cast

from rich.text import Text
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.dom import DOMNode

from .keymap import Action, screen_actions

if TYPE_CHECKING:
    from .app import CascadeApp

_UNSAID = frozenset({"app.palette"})
"""Actions that make no sense in the palette."""


class ActionProvider(Provider):
    """Offers actions by their text; says the keys beside it."""

    def _offers(self) -> Iterator[tuple[str, Action, DOMNode]]:
        context = getattr(self.screen, "CONTEXT", None)
        if context is None:
            return
        for action in screen_actions(context):
            if action.id in _UNSAID:
                continue
            node = self._node(action.context)
            if node is None or not self.app._check_action_state(action.call, node):
                continue
            yield f"{action.group}: {action.text}", action, node

    def _node(self, context: str) -> DOMNode | None:
        """Where an action is done: the app, the screen, or the widget of that kind, the focused one first."""
        if context == "app":
            return self.app
        if context == getattr(self.screen, "CONTEXT", None):
            return self.screen
        widgets = [self.focused] if self.focused is not None else []
        widgets += self.screen.query("*")
        return next((widget for widget in widgets if getattr(widget, "CONTEXT", None) == context), None)

    def _run(self, action: Action, node: DOMNode) -> None:
        cast("CascadeApp", self.app).do_action(action, node)

    async def discover(self) -> Hits:
        """Offer everything before anything is typed."""
        for text, action, node in self._offers():
            yield DiscoveryHit(Text(text), partial(self._run, action, node), text=text, help=action.keys_text)

    async def search(self, query: str) -> Hits:
        """Offer what matches."""
        matcher = self.matcher(query)
        for text, action, node in self._offers():
            score = matcher.match(text)
            if score > 0:
                yield Hit(
                    score, matcher.highlight(text), partial(self._run, action, node), text=text, help=action.keys_text
                )
