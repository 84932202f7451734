r"""Log lines between bytes, the wire and the screen.

A simulator may print any bytes. They travel and are stored exactly (`line_from_bytes`, `line_to_bytes`), and are
cleaned only for display (`display_text`).
"""

from __future__ import annotations

import re

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
