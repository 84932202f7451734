"""Small things about text."""

from __future__ import annotations

import inspect
import re

_MARK = "Addition: "


def without_mark(text: str) -> str:
    """A summary or description without the word that marks what the original contract did not have."""
    return text[len(_MARK) :][:1].upper() + text[len(_MARK) + 1 :] if text.startswith(_MARK) else text


def anchor(*words: str) -> str:
    """An HTML id."""
    return re.sub(r"[^a-z0-9]+", "-", "-".join(words).lower()).strip("-")


def paragraphs(text: str) -> list[str]:
    """Paragraphs, each on one line."""
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", inspect.cleandoc(text)) if part.strip()]
