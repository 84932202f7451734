"""The prompt as a skill: the same text behind a name and a description."""

from __future__ import annotations

from .prompt import text as prompt_text
from .templating import fill


def text() -> str:
    """SKILL.md."""
    return fill("skill.md", {"prompt": prompt_text()})
