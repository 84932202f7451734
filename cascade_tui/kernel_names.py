"""Kernel names for people: demangled, and short enough for a column."""

from __future__ import annotations

from functools import lru_cache

from pydemumble import demangle

from cascade_server.contract.text import may_demangle

from .format import safe_text

_PAIRS = {"(": ")", "<": ">", "[": "]", "{": "}"}
_MAX = 4096
"""Longer names are shown as they are: no compiler's limit, but a bound on the work done for a cell."""


@lru_cache(maxsize=8192)
def full_name(name: str) -> str:
    """Demangle a name; what isn't mangled, or can't be read, stays as it is."""
    if may_demangle(name):
        return safe_text(demangle(name)) or safe_text(name)
    return safe_text(name)


@lru_cache(maxsize=8192)
def short_name(name: str) -> str:
    """Give a name without return type, parameters and namespaces, keeping template arguments.

    `void at::native::copy<int, 4>(float*)` becomes `copy<int, 4>`.
    """
    text = full_name(name)
    if len(text) > _MAX or not (name.startswith("_Z") or "(" in text):
        return text
    text = _without_parameters(text.partition(" [clone ")[0])
    start = _last_top_level(text)
    return text[start:].strip() or full_name(name)


def _without_parameters(text: str) -> str:
    """Cut at the last top-level parenthesis that has a name before it."""
    depth = 0
    for index in range(len(text) - 1, -1, -1):
        char = text[index]
        if char in ")>]}":
            depth += 1
        elif char in _PAIRS:
            depth -= 1
            if depth <= 0:
                return text[:index] if char == "(" and index > 0 else text
        elif depth == 0 and char == " ":
            # Qualifiers such as `const` may stand behind the parameters.
            continue
    return text


def _last_top_level(text: str) -> int:
    """Find where the last name begins: behind the last space or `::` outside all brackets."""
    depth = 0
    start = 0
    for index, char in enumerate(text):
        if char in _PAIRS:
            depth += 1
        elif char in ")>]}":
            depth = max(0, depth - 1)
        elif depth == 0 and (char == " " or text.startswith("::", index)) and index + 1 < len(text):
            start = index + (1 if char == " " else 2)
    return start
