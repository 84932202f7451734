"""Traces without metadata.json, as Accel-Sim's users have them: the arch is read from the first kernel's header."""

from __future__ import annotations

import lzma
import re
from pathlib import Path

HEAD_BYTES = 16 << 10
MEMORY_LIMIT = 256 << 20


def arch_of_first_kernel(path: Path) -> str | None:
    """`sm_80` of a kernel file whose header says `-binary version = 80`; None when it can't be read."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
        if path.suffix == ".xz":
            head = lzma.LZMADecompressor(memlimit=MEMORY_LIMIT).decompress(head, HEAD_BYTES)
    except (OSError, lzma.LZMAError):
        return None
    match = re.search(rb"^-binary version = (\d{2,3})\s*$", head, re.MULTILINE)
    return f"sm_{match[1].decode()}" if match else None
