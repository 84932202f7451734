"""A block of text that hides while it is empty and is drawn only when it changed."""

from __future__ import annotations

from rich.text import Text
from textual.widgets import Static


class Line(Static):
    """Text from anywhere: never read as markup."""

    # By class, not by `display`: a screen's own rules may hide a line that has text, too.
    DEFAULT_CSS = "Line.-empty { display: none; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(markup=False, id=id, classes=classes)
        self.add_class("-empty")
        self._text = Text()

    @property
    def text(self) -> Text:
        """What is shown."""
        return self._text

    def tell(self, text: Text | str) -> None:
        """Show a text; an empty one hides the line."""
        new = text if isinstance(text, Text) else Text(text)
        if new == self._text:
            return
        self._text = new
        self.set_class(not new, "-empty")
        self.update(new)
