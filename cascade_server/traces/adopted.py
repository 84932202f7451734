"""Traces without metadata.json, as Accel-Sim's users have them: the arch is read from the first kernel's header."""

from __future__ import annotations

import lzma
import re

from .folder import Folder
from .kernelslist import KernelsList

HEAD_BYTES = 16 << 10
MEMORY_LIMIT = 128 << 20
"""Of xz; `xz -9` needs 65 MiB."""

_BINARY_VERSION = re.compile(rb"^-binary version[ \t]*=[ \t]*([0-9]{2,3})[ \t\r]*$", re.MULTILINE)


def arch_of_first_kernel(folder: Folder, prefix: str, listed: KernelsList) -> str | None:
    """`sm_80` when the first listed kernel file says `-binary version = 80`; None when that can't be read.

    `prefix` is the list's folder, "" or `traces/`. Reads HEAD_BYTES of one file: plain, `.xz` or
    `.tracez`. Never raises.
    """
    if not listed.kernels or listed.unsafe:
        return None
    name = prefix + listed.kernels[0].file
    if name not in folder.sizes:
        return None
    try:
        return arch_of_head(folder.read(name, HEAD_BYTES))
    except OSError:
        return None


def arch_of_head(head: bytes) -> str | None:
    """The arch in the first bytes of a kernel file; None when they hold none. Never raises."""
    if head.startswith(b"\xfd7zXZ\0"):
        try:
            head = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MEMORY_LIMIT).decompress(head, HEAD_BYTES)
        except (lzma.LZMAError, EOFError):
            return None
    # In `.tracez` a NUL ends the header; in text a line that begins with # does, and what follows is data.
    header = re.split(rb"\0|^#", head, maxsplit=1, flags=re.MULTILINE)[0]
    found = _BINARY_VERSION.search(header)
    return f"sm_{found[1].decode()}" if found else None
