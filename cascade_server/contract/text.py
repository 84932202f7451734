r"""Log lines between bytes, the wire and the screen.

A simulator may print any bytes. They travel and are stored exactly (`line_from_bytes`, `line_to_bytes`), and are
cleaned only for display (`display_text`).
"""

from __future__ import annotations

import math
import re
from collections import Counter

_SURROGATES = re.compile("[\ud800-\udfff]")


def line_from_bytes(raw: bytes) -> str:
    """Decode a line so that `line_to_bytes` gives the same bytes back, UTF-8 or not."""
    return raw.decode("utf-8", "surrogateescape")


def line_to_bytes(line: str) -> bytes:
    """Encode a line; lone surrogates that stand for no byte (from another client) become `?`."""
    try:
        return line.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return re.sub("[\ud800-\udc7f\udd00-\udfff]", "?", line).encode("utf-8", "surrogateescape")


def display_text(line: str) -> str:
    """Replace what no JSON reader or terminal takes: lone surrogates become U+FFFD."""
    return line if line.isascii() else _SURROGATES.sub("\ufffd", line)


_LONGEST_NAME = 4096
_REFERENCE = re.compile(r"S[0-9A-Z]*_")
_MOST_DOUBLINGS = 20


def may_demangle(name: str) -> bool:
    """Whether a kernel's name is a mangled one that is safe to give to a demangler.

    A mangled name may refer to parts of itself, so that each ten characters double its length: a hostile name of 300
    could fill the memory. One that could grow by more than 20 doublings is not safe; real ones are far below. Nor is
    one with a NUL, which would end it early in C, or of more than 4,096 characters, a bound on the work for one name.
    """
    if not (name.startswith("_Z") and len(name) <= _LONGEST_NAME and name.isascii()) or "\0" in name:
        return False
    doublings = sum(map(math.log2, Counter(_REFERENCE.findall(name)).values()))
    return doublings <= _MOST_DOUBLINGS
