"""Which kernel a stats block is of when several run at a time, and how long that kernel took.

With concurrent kernels a block names the kernels that started since the block before, not the one that finished, and
its `gpu_sim_cycle` is the time since the block before. But the log tells more: `Destroy streams for kernel N` comes
right before the block, and N's launch gave its stream, which is the block's `kernel_stream_id`. The kernel's own cycles
are `gpu_tot_sim_cycle` at its end minus what it was at its launch. For kernels that run one at a time this gives what
the block prints itself, in every recording.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_MARKED = re.compile(
    rb"^(?:launching kernel name: |Destroy streams for kernel |kernel_name =|kernel_launch_uid =|kernel_stream_id =|"
    rb"gpu_tot_sim_cycle =)[^\n]*",
    re.MULTILINE,
)
_LAUNCH = re.compile(r"launching kernel name: (.*?) uid: ([0-9]{1,18})(?: cuda_stream_id: ([0-9]{1,40}))?\s*")
_DESTROY = re.compile(r"Destroy streams for kernel ([0-9]{1,18})\b.*")


@dataclass(frozen=True, slots=True)
class Finished:
    """The kernel that a block is of; what the log doesn't tell is None."""

    uid: int | None
    name: str | None
    """Mangled, from its launch."""
    own_cycles: int | None
    """Core clock cycles from its launch to its end."""
    overlapped: bool
    """Other kernels ran at some time while it did: what the simulator counted since the block before is not its own."""


@dataclass(slots=True)
class _Launch:
    name: str
    stream: int | None
    total: int | None
    overlapped: bool


@dataclass(slots=True)
class _Block:
    uid_seen: bool = False
    stream: int | None = None
    total: int | None = None


def marked_lines(raw: bytes) -> Iterator[str]:
    """The lines of a piece of log (whole lines) that `finished_kernels` needs; a thousandth of them."""
    for match in _MARKED.finditer(raw):
        yield match[0].decode("utf-8", "replace")


def finished_kernels(lines: Iterable[str]) -> list[Finished]:
    """For each stats block, also one cut off behind its head, the kernel that finished.

    `lines` are a log's from its start, or the marked ones among them. A log that is entered later gives the same as
    long as every kernel still running then is launched behind the entry, and a block before the first launch
    gives the total to count from.
    """
    scan = _Scan()
    for line in lines:
        scan.take(line)
    scan.end_block()
    return scan.found


class _Scan:
    def __init__(self) -> None:
        self.found: list[Finished] = []
        self._running: dict[int, _Launch] = {}
        self._destroyed: list[int] = []
        self._total: int | None = 0
        self._block: _Block | None = None

    def take(self, line: str) -> None:
        if line.startswith("kernel_name ="):
            self._open_block()
        elif line.startswith("kernel_launch_uid ="):
            # Without an open block the line before was broken.
            if self._block is None or self._block.uid_seen:
                self._open_block()
            assert self._block is not None
            self._block.uid_seen = True
        elif line.startswith("kernel_stream_id =") and self._block is not None:
            self._block.stream = _whole(line)
        elif line.startswith("gpu_tot_sim_cycle =") and self._block is not None:
            self._block.total = self._total = _whole(line)
        elif launch := _LAUNCH.fullmatch(line):
            self.end_block()
            # A kernel's block follows its end at once: those that ended before this line have lost theirs, and with it
            # the total.
            if self._take_ended():
                self._total = None
            name, uid, stream = launch.groups()
            for other in self._running.values():
                other.overlapped = True
            overlapped = bool(self._running)
            self._running[int(uid)] = _Launch(name.strip(), int(stream) if stream else None, self._total, overlapped)
        elif destroyed := _DESTROY.fullmatch(line):
            self.end_block()
            self._destroyed.append(int(destroyed[1]))

    def _open_block(self) -> None:
        self.end_block()
        self._block = _Block()
        # Until the block says: if its line is broken, launches behind it have no total to count from.
        self._total = None

    def end_block(self) -> None:
        """Decide on the open block, if any."""
        block, self._block = self._block, None
        if block is None:
            return
        ended = self._take_ended()
        on_stream = [uid for uid, launch in ended.items() if launch.stream == block.stream]
        uid = on_stream[0] if len(on_stream) == 1 else None
        if uid is None:
            overlapped = any(launch.overlapped for launch in [*ended.values(), *self._running.values()])
            self.found.append(Finished(None, None, None, overlapped))
        else:
            launch = ended[uid]
            known = block.total is not None and launch.total is not None and block.total >= launch.total
            own = block.total - launch.total if known else None  # type: ignore[operator]
            self.found.append(Finished(uid, launch.name, own, launch.overlapped))

    def _take_ended(self) -> dict[int, _Launch]:
        """The kernels that have ended, which run no more; some are queued and never launched, and ended as well."""
        ended = {uid: self._running.pop(uid) for uid in self._destroyed if uid in self._running}
        self._destroyed.clear()
        return ended


def _whole(line: str) -> int | None:
    text = line.partition("=")[2].strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 40 else None
