"""Whether a simulator succeeded, and if not, why in one sentence.

Exit code 0 is not success: Accel-Sim also ends with it on traces it can't read, at a cycle limit, and after it dropped
kernels. A sim has succeeded when the exit code is 0, the exit marker was printed, no limit cut it short, and every
listed kernel has its stats block.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from cascade_server.contract.states import SimState

from . import causes
from .causes import Cause, Place

_START = re.compile(
    rb"(?=[GtlDkgPH-])(?:(?P<bind>GPGPU-Sim uArch: Shader \d+ bind)|(?P<block>thread block = )"
    rb"|(?P<launch>launching kernel name: (?P<name>.*) uid: (?P<uid>\d+) cuda_stream_id: \d+)"
    rb"|(?P<destroy>Destroy streams for kernel (?P<destroyed>\d+):)"
    rb"|(?P<stats>kernel_name = )|(?P<uids>kernel_launch_uid = (?P<named>[\d ]*))|(?P<end>gpgpu_silicon_slowdown = )"
    rb"|(?P<file>Processing kernel (?P<path>.+))|(?P<header>Header info loaded for kernel command)"
    rb"|(?P<kernel>-kernel name = )|(?P<version>-binary version = (?P<binary>\d+))|(?P<shmem>-shmem = (?P<bytes>\d+))"
    rb"|(?P<limit>-gpgpu_max_(?:cycle|insn|cta|completed_cta)\s+\d+)|(?P<core>-gpgpu_shmem_size\s+(?P<size>\d+))"
    rb"|(?P<cut>GPGPU-Sim: \*\* break due to reaching)|(?P<done>GPGPU-Sim: \*\*\* exit detected \*\*\*))"
)
_MAX_NAME_CHARS = 80
_FROM_OUTSIDE = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGXCPU})
_SIGNAL_WORDS = {
    signal.SIGKILL: "was killed by signal 9 (SIGKILL), often the out-of-memory killer,",
    signal.SIGSEGV: "crashed with a segmentation fault (signal 11, SIGSEGV)",
    signal.SIGABRT: "aborted (signal 6, SIGABRT) without printing a reason",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a sim ended: `succeeded`, or `failed` with one sentence."""

    state: SimState
    error: str | None = None


def shell_exit_code(returncode: int) -> int:
    """An exit code as shells and the recordings count it: death by signal n, for Python -n, is 128 + n."""
    return 128 - returncode if returncode < 0 else returncode


class LogScanner:
    """Reads a simulator's output line by line; holds a few bytes for each kernel, never the lines."""

    def __init__(self, gpu_config: str | None = None) -> None:
        self._config = gpu_config
        self._headers = 0
        self._launched: dict[int, bytes] = {}
        self._finished: set[int] = set()
        self._last_finished: int | None = None
        self._destroyed: set[int] = set()
        self._named: list[int] = []
        self._in_block = False
        self._blocks = 0
        self._file: bytes | None = None
        self._binary_version: int | None = None
        self._shmem = self._core_shmem = 0
        self._blocks_issued = 0
        self._limits: list[bytes] = []
        self._cut = False
        self._done = False
        self._causes: dict[Cause, re.Match[bytes]] = {}
        self._last_line = b""

    def feed(self, lines: Iterable[bytes]) -> None:
        """Take the next lines, without line feeds; any bytes, never raises."""
        batch = list(lines)
        start, find = _START.match, causes.find
        suspicious = causes.may_hold(b"\n".join(batch))
        for line in batch:
            if match := start(line):
                self._note(match)
            elif suspicious and (found := find(line)):
                # The first of a kind is the cause and later ones follow from it; of files the last one stopped it.
                if found[0] not in self._causes or found[0] is Cause.MISSING_FILE:
                    self._causes[found[0]] = found[1]
            elif line and not line.isspace():
                self._last_line = line

    def verdict(self, returncode: int, listed_kernels: int | None = None) -> Verdict:
        """Judge the whole run.

        `returncode`: as Python or as a shell counts it. `listed_kernels`: how many kernels the trace lists; None, for
        a recording of another trace, goes by those whose headers the simulator read.
        """
        listed = self._headers if listed_kernels is None else listed_kernels
        error = self._error(shell_exit_code(returncode), listed, listed if listed_kernels is not None else None)
        return Verdict(SimState.SUCCEEDED) if error is None else Verdict(SimState.FAILED, error)

    # -- reading -----------------------------------------------------------------------------

    def _note(self, match: re.Match[bytes]) -> None:
        match match.lastgroup:
            case "block":
                self._blocks_issued += 1
            case "launch":
                self._launched[int(match["uid"])] = match["name"]
                self._blocks_issued = 0
            case "destroy":
                self._destroyed.add(int(match["destroyed"]))
            case "stats":
                self._end_block()
                self._in_block = True
                self._named = []
            case "uids":
                self._named = [int(uid) for uid in match["named"].split()]
            case "end":
                self._end_block()
            case "file":
                self._file = match["path"]
            case "header":
                self._headers += 1
            case _:
                self._note_setting(match)

    def _note_setting(self, match: re.Match[bytes]) -> None:
        match match.lastgroup:
            case "version":
                self._binary_version = int(match["binary"])
            case "shmem":
                self._shmem = int(match["bytes"])
            case "core":
                self._core_shmem = int(match["size"])
            case "limit":
                option, value = match[0].split()
                if int(value):
                    self._limits.append(option + b" " + value)
            case "cut":
                self._cut = True
            case "done":
                self._end_block()
                self._done = True

    def _end_block(self) -> None:
        if not self._in_block:
            return
        self._in_block = False
        self._blocks += 1
        # With concurrent kernels a block names those that started; the one that ended had its streams destroyed.
        running = self._launched.keys() - self._finished
        ended = (self._destroyed & running) or set(self._named[:1]) & running
        self._finished |= ended
        self._last_finished = max(ended, default=self._last_finished)
        self._destroyed.clear()

    # -- judging -----------------------------------------------------------------------------

    def _error(self, exit_code: int, listed: int, total: int | None) -> str | None:
        if exit_code == 0 and self._done:
            return self._incomplete(listed, total)
        place = self._place(total)
        died_of = _signal(exit_code)
        if self._causes and died_of not in _FROM_OUTSIDE:
            cause = min(self._causes)
            return causes.explain(cause, self._causes[cause], place)
        if died_of is not None:
            what = _SIGNAL_WORDS.get(died_of, f"was ended by signal {died_of.value} ({died_of.name})")
            return f"The simulator {what} {place.when}.{self._shmem_hint(died_of)}"
        if self._cut:
            return self._cut_short(total)
        if exit_code == 0:
            return f"The simulator exited with 0 but never said that it was done; it stopped {place.when}."
        last = f" Its last line: {causes.text(self._last_line)}" if self._last_line else ""
        return f"The simulator ended with exit code {exit_code} {place.when}.{last}"

    def _incomplete(self, listed: int, total: int | None) -> str | None:
        if self._cut:
            return self._cut_short(total)
        if listed == 0:
            return "The kernel list names no kernel, so nothing was simulated."
        if self._blocks >= listed:
            return None
        dropped = [uid for uid in range(1, listed + 1) if uid not in self._launched]
        if dropped:
            return f"The simulator dropped {_kernels(dropped)} and exited with 0."
        unfinished = sorted(self._launched.keys() - self._finished)
        which = f" (missing: {_kernels(unfinished)})" if unfinished else ""
        return f"The simulator exited with 0, but only {self._blocks} of {listed} kernels have statistics{which}."

    def _cut_short(self, total: int | None) -> str:
        limit = causes.text(b" ".join(self._limits)) or "-gpgpu_max_cycle or -gpgpu_max_insn"
        whole = max(self._blocks - 1, 0)
        done = f"{whole} of {total} kernels" if total is not None else _count(whole)
        return f"Stopped at the limit {limit} after {done}; the numbers of the last one are cut short."

    def _place(self, total: int | None) -> Place:
        running = [uid for uid in self._launched if uid not in self._finished]
        if running:
            when = f"while {self._kernel(running[-1], total)} was running"
        elif self._last_finished is not None:
            when = f"after {self._kernel(self._last_finished, total)} had finished"
        else:
            when = "before the first kernel started"
        finished = f"{_count(self._blocks)} had finished"
        file = causes.text(self._file) if self._file else None
        return Place(when, finished, file, self._binary_version, self._config)

    def _kernel(self, uid: int, total: int | None) -> str:
        of = f" of {total}" if total is not None and uid <= total else ""
        name = causes.text(self._launched[uid])
        short = name if len(name) <= _MAX_NAME_CHARS else name[: _MAX_NAME_CHARS - 1] + "…"
        return f"kernel {uid}{of} ({short})"

    def _shmem_hint(self, died_of: signal.Signals) -> str:
        if died_of is not signal.SIGABRT or self._blocks_issued or not 0 < self._core_shmem < self._shmem:
            return ""
        return (
            f" It asks for {self._shmem:,} bytes of shared memory a block, and a core of the config has "
            f"{self._core_shmem:,}."
        )


def _signal(exit_code: int) -> signal.Signals | None:
    try:
        return signal.Signals(exit_code - 128)
    except ValueError:
        return None


def _count(kernels: int) -> str:
    return f"{kernels or 'no'} {'kernels' if kernels > 1 else 'kernel'}"


def _kernels(uids: Collection[int]) -> str:
    shown = [str(uid) for uid in uids][:10]
    if len(uids) > len(shown):
        return f"kernels {', '.join(shown)} and {len(uids) - len(shown)} more"
    if len(shown) == 1:
        return f"kernel {shown[0]}"
    return f"kernels {', '.join(shown[:-1])} and {shown[-1]}"
