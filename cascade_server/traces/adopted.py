"""Traces without metadata.json, as Accel-Sim's users have them: the arch is read from the kernel files' headers."""

from __future__ import annotations

import lzma
import re

from .folder import Folder
from .kernelslist import KernelsList

HEAD_BYTES = 16 << 10
MAX_HEADS = 16
"""Kernel files looked into, spread evenly over the list."""

MEMORY_LIMIT = 128 << 20
"""Of xz; `xz -9` needs 65 MiB."""

_BINARY_VERSION = re.compile(rb"^-binary version[ \t]*=[ \t]*([0-9]{2,3})[ \t\r]*$", re.MULTILINE)


def archs_of_kernels(folder: Folder, prefix: str, listed: KernelsList) -> list[str]:
    """The archs that listed kernel files were compiled for, oldest first: `sm_80` for `-binary version = 80`.

    A GPU runs code of older versions too (a library's sm_80 kernels on an sm_86), never of newer ones: the last one
    is the GPU's. `prefix` is the list's folder, "" or `traces/`. Reads HEAD_BYTES of at most MAX_HEADS files: plain,
    `.xz` or `.tracez`. Never raises.
    """
    if listed.unsafe:
        return []
    step = -(-len(listed.kernels) // MAX_HEADS) or 1
    found: set[str] = set()
    for kernel in listed.kernels[::step]:
        name = prefix + kernel.file
        try:
            arch = arch_of_head(folder.read(name, HEAD_BYTES)) if name in folder.sizes else None
        except OSError:
            continue
        if arch is not None:
            found.add(arch)
    return sorted(found, key=lambda arch: int(arch.removeprefix("sm_")))


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
