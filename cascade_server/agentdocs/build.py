"""Every document by its file name, made once and kept in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from . import llms, openapi, prompt, reference, skill


class Document(NamedTuple):
    """How a document is made, and what it is."""

    make: Callable[[], str]
    media_type: str


def _openapi_json() -> str:
    return json.dumps(openapi.document(), ensure_ascii=False, indent=1) + "\n"


DOCUMENTS: Mapping[str, Document] = {
    "agent-prompt.md": Document(prompt.text, "text/markdown"),
    "SKILL.md": Document(skill.text, "text/markdown"),
    "llms.txt": Document(llms.short, "text/plain"),
    "llms-full.txt": Document(llms.full, "text/plain"),
    "openapi.json": Document(_openapi_json, "application/json"),
    "api.html": Document(reference.page, "text/html"),
}


@cache
def text(name: str) -> str:
    """The document with this file name."""
    return DOCUMENTS[name].make()


def write(folder: Path) -> list[Path]:
    """Write every document into a folder, made if need be; the paths written."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name in DOCUMENTS:
        path = folder / name
        path.write_text(text(name), encoding="utf-8", newline="\n")
        written.append(path)
    return written
