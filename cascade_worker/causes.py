"""What a simulator's log says went wrong, found line by line and put into words.

A cause never decides whether a sim has failed: exit code, exit marker and the kernels seen do that. It only explains.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

MAX_TEXT_CHARS = 240


class Cause(IntEnum):
    """Kinds of causes; where a log shows several, the lowest explains best."""

    OPTION = 1
    RESOURCES = 2
    OPCODE = 3
    ASSERTION = 4
    DEADLOCK = 5
    MEMORY = 6
    EXCEPTION = 7
    BINARY_VERSION = 8
    LIST_FILE = 9
    CONFIG_FILE = 10
    LIBRARY = 11
    DISK = 12
    MISSING_FILE = 13
    ERROR_LINE = 14


@dataclass(frozen=True, slots=True)
class Place:
    """Where a simulator stood when it ended, as clauses; `config` and `binary_version` may be unknown."""

    when: str
    finished: str
    trace_file: str | None
    binary_version: int | None
    config: str | None


# stderr can break into any line of stdout, so most are looked for anywhere in a line; the words are the simulator's
# own and long enough that no kernel name or counter holds them.
_PATTERNS: tuple[tuple[Cause, re.Pattern[bytes]], ...] = (
    (Cause.OPTION, re.compile(rb"ERROR: Unknown Option: '([^']*)'")),
    (Cause.RESOURCES, re.compile(rb"ERROR \*\* Kernel requires more resources than shader has")),
    (Cause.OPCODE, re.compile(rb"ERROR:\s+undefined instruction : (\S+)")),
    (Cause.ASSERTION, re.compile(rb"([^\s:]+:\d+): .*?Assertion `(.*)' failed\.")),
    (Cause.DEADLOCK, re.compile(rb"ERROR \*\* deadlock detected")),
    (Cause.MEMORY, re.compile(rb"terminate called after throwing an instance of 'std::bad_alloc'")),
    (Cause.EXCEPTION, re.compile(rb"what\(\):\s*(.+)|terminate called after throwing an instance of '([^']+)'")),
    (Cause.BINARY_VERSION, re.compile(rb"unsupported binary version: (\d+)")),
    (Cause.LIST_FILE, re.compile(rb"Unable to open file: (.+)")),
    (Cause.CONFIG_FILE, re.compile(rb"Could not open configuration file (\S+)")),
    (Cause.LIBRARY, re.compile(rb"(?:error while loading shared libraries|symbol lookup error): (.+)")),
    (Cause.DISK, re.compile(rb"No space left on device")),
    (Cause.MISSING_FILE, re.compile(rb"^(?:cat|xz|zstd): (.+): No such file or directory")),
    (Cause.ERROR_LINE, re.compile(rb"^GPGPU-Sim[^=]*?ERROR[ :*]*(.+)")),
)


_MARKS = (
    b"ERROR",
    b"Assertion `",
    b"terminate called",
    b"what():",
    b"unsupported binary",
    b"No such file",
    b"No space left",
    b"Unable to open",
    b"Could not open",
    b"symbol lookup",
    b"shared libraries",
)


def may_hold(data: bytes) -> bool:
    """Whether `find` could find anything in any line of `data`; fast, since for nearly all of a log it can't."""
    return any(mark in data for mark in _MARKS)


def find(line: bytes) -> tuple[Cause, re.Match[bytes]] | None:
    """The cause that a line names, or None."""
    for cause, pattern in _PATTERNS:
        if match := pattern.search(line):
            return cause, match
    return None


def text(raw: bytes) -> str:
    """Bytes of a log as one line for a sentence: control characters shown as such, cut where it is too long."""
    shown = "".join(char if char.isprintable() else "\ufffd" for char in raw.strip().decode("utf-8", "replace"))
    return shown if len(shown) <= MAX_TEXT_CHARS else shown[: MAX_TEXT_CHARS - 1] + "…"


def explain(cause: Cause, match: re.Match[bytes], place: Place) -> str:
    """One sentence about a cause."""
    said = text(next((group for group in match.groups() if group), b""))
    match cause:
        case Cause.ASSERTION:
            return _assertion(said, text(match[2]), place)
        case Cause.OPCODE:
            return f"The trace holds an instruction that this Accel-Sim does not know ({said}), met {place.when}."
        case Cause.DEADLOCK:
            return f"The simulator stopped on a deadlock, no core got any further, {place.when}; {place.finished}."
        case Cause.BINARY_VERSION:
            return _binary_version(int(match[1]), place)
        case _:
            return _SENTENCES[cause].format(said=said, when=place.when, file=place.trace_file or "of the next kernel")


_SENTENCES = {
    Cause.OPTION: "This Accel-Sim does not know the option {said}.",
    Cause.RESOURCES: "A kernel needs more shared memory, registers or threads than a core of the config has: "
    "the simulator stopped {when}.",
    Cause.MEMORY: "The simulator ran out of memory (std::bad_alloc) {when}.",
    Cause.EXCEPTION: "The simulator stopped on an error it did not handle ({said}) {when}.",
    Cause.LIST_FILE: "The simulator could not open {said}.",
    Cause.CONFIG_FILE: "The simulator could not open {said}, a file of the GPU config that it looks for in its working "
    "directory.",
    Cause.LIBRARY: "The simulator and its libraries do not fit together: {said}.",
    Cause.DISK: "The disk is full: the simulator could not write {when}.",
    Cause.MISSING_FILE: "The trace file {said} is missing.",
    Cause.ERROR_LINE: "The simulator stopped with an error {when}: {said}",
}


def _assertion(where: str, condition: str, place: Place) -> str:
    said = f"Assertion `{condition}' failed in {where}"
    if "memory_partition_indexing error" in condition:
        return (
            "The GPU config can't be simulated by this Accel-Sim: its number of memory channels does not suit IPOLY "
            f"hashing, which takes 16, 32 or 64. {said}."
        )
    if where.startswith("trace_parser.cc") and "line.back()" in condition:
        return f"The trace file {place.trace_file or 'of the kernel'} is cut off or damaged. {said}, {place.when}."
    if where.startswith("trace_parser.cc") and "params.size()" in condition:
        return f"The kernel list holds a memcpy line that is not `MemcpyHtoD,<address>,<bytes>`. {said}."
    return f"The simulator stopped {place.when}: {said}.{_arch_hint(place)}"


def _binary_version(version: int, place: Place) -> str:
    file = place.trace_file or "of a kernel"
    if version == 0:
        return (
            f"The trace file {file} is missing or can't be read (the simulator says: unsupported binary version: 0); "
            f"{place.finished}."
        )
    return (
        "The trace is of a GPU that this Accel-Sim does not know: "
        f"unsupported binary version: {version} (sm_{version}) in the trace file {file}. "
        "It needs a newer Accel-Sim, or a trace taken on an older GPU."
    )


def _arch_hint(place: Place) -> str:
    found = re.match(r"SM(\d{1,3})_", place.config or "")
    if found is None or place.binary_version is None:
        return ""
    arch = int(found[1]) * (10 if len(found[1]) == 1 else 1)
    if arch == place.binary_version:
        return ""
    return (
        f" The trace is of sm_{place.binary_version} but the config {place.config} is sm_{arch}: "
        "a config of the trace's own GPU generation may work."
    )
