"""llms.txt, a table of contents for language models, and llms-full.txt, everything in one text."""

from __future__ import annotations

from .markdown import answer_type, api
from .notes import grouped
from .plain import without_mark
from .prompt import text as prompt_text
from .templating import fill


def short() -> str:
    """llms.txt, after the convention: a title, a summary, and lists of links."""
    sections = []
    for group, endpoints in grouped():
        lines = [f"- `{e.method} {e.path}` → {answer_type(e)}: {without_mark(e.summary)}" for e in endpoints]
        sections.append(f"**{group.title}.** {group.summary}\n\n" + "\n".join(lines))
    return fill("llms.md", {"routes": "\n\n".join(sections)})


def full() -> str:
    """llms-full.txt: the prompt and the whole API."""
    return fill("llms-full.md", {"prompt": prompt_text(), "api": api()})
