"""What the log parser gives back: finished stats blocks and running totals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from cascade_server.simlog.pairs import StatValue, number, wall_seconds
from cascade_server.simlog.stats import block_stats

_LARGEST = 1 << 63  # a larger count is an underflow of the simulator's, and no database column takes it
_HEAD_LINES = 32
_TAIL_LINES = 16
_HEAD_KEYS = frozenset(
    (
        "kernel_name",
        "kernel_launch_uid",
        "kernel_stream_id",
        "gpu_sim_cycle",
        "gpu_sim_insn",
        "gpu_ipc",
        "gpu_tot_sim_cycle",
        "gpu_tot_sim_insn",
        "gpu_tot_ipc",
    )
)
_TAIL_KEYS = frozenset(("gpgpu_simulation_time", "gpgpu_simulation_rate"))


@dataclass(frozen=True, slots=True)
class Totals:
    """A sim's totals as of its last block: cycles and thread instructions over all kernels, instructions per cycle,

    and thread instructions simulated per second of wall time. None where the log has no number.
    """

    gpu_tot_sim_cycle: float | None = None
    gpu_tot_sim_insn: float | None = None
    gpu_tot_ipc: float | None = None
    sim_rate_ips: float | None = None


@dataclass(frozen=True, slots=True)
class PartialMark:
    """A block given before turns out to be cut short by -gpgpu_max_cycle or -gpgpu_max_insn.

    The only sign, `** break due to reaching the maximum …`, is printed after the block.
    """

    kernel_index: int


@dataclass(frozen=True, slots=True)
class KernelBlock:
    """One finished stats block. A number is None when it is missing, nan, infinite or broken.

    With several kernels at a time `kernel_name` and `kernel_launch_uid` are what the simulator prints: the kernels that
    STARTED since the block before, none or several, and not the one that finished; `gpu_sim_cycle` is then the time
    since the block before.
    """

    kernel_index: int
    """From 0, in the order of completion within the sim."""
    kernel_name: str
    """As printed, stripped. Where none is printed: the launched kernel's that the block must belong to, else ""."""
    name_inferred: bool
    kernel_launch_uid: int | None
    """The one printed or inferred; None when the block names several kernels or none."""
    stream_id: int | None
    gpu_sim_cycle: int | None
    gpu_sim_insn: int | None
    gpu_ipc: float | None
    gpu_tot_sim_cycle: int | None
    gpu_tot_sim_insn: int | None
    gpu_tot_ipc: float | None
    sim_rate_ips: float | None
    """`gpgpu_simulation_rate … (inst/sec)`."""
    sim_time_s: float | None
    """Wall seconds since the simulator's start: the 56 of `gpgpu_simulation_time = … (56 sec)`."""
    first_line: int
    """Number of the block's first line in the sim's log, from 0."""
    line_count: int
    partial: bool
    """Cut by a limit and known to be when the block was given; mostly a `PartialMark` says so afterwards."""
    lines: tuple[str, ...] = field(repr=False, compare=False)

    def stats(self) -> dict[str, StatValue]:
        """All keys of the block (`block_stats`), computed anew at each call."""
        return block_stats(self.lines)

    def totals(self) -> Totals:
        """The sim's totals as of this block."""
        cycles, instructions = self.gpu_tot_sim_cycle, self.gpu_tot_sim_insn
        return Totals(
            gpu_tot_sim_cycle=None if cycles is None else float(cycles),
            gpu_tot_sim_insn=None if instructions is None else float(instructions),
            gpu_tot_ipc=self.gpu_tot_ipc,
            sim_rate_ips=self.sim_rate_ips,
        )


@dataclass(frozen=True, slots=True)
class BlockFields:
    """The fields of a block that its own lines give, texts stripped; a key's first line counts."""

    texts: dict[str, str]

    @classmethod
    def read(cls, lines: Sequence[str]) -> BlockFields:
        """Reads them from the block's first and last lines, and from all of them when one is not there."""
        texts: dict[str, str] = {}
        for keys, usual in ((_HEAD_KEYS, lines[:_HEAD_LINES]), (_TAIL_KEYS, lines[-_TAIL_LINES:])):
            found = dict(_first_pairs(usual, keys))
            if len(found) < len(keys):
                found = dict(_first_pairs(lines, keys))
            texts |= found
        return cls(texts)

    def integer(self, key: str) -> int | None:
        """The count under `key`, below 2^63; None when it is not a whole number without a unit."""
        text = self.texts.get(key, "")
        value = number(text) if text[-1:].isdigit() else None
        return value if isinstance(value, int) and -_LARGEST <= value < _LARGEST else None

    def real(self, key: str) -> float | None:
        """The number under `key`; None when it is nan, infinite, or carries anything else."""
        text = self.texts.get(key, "")
        value = number(text) if text[-1:].isdigit() else None
        return None if value is None else float(value)

    @property
    def name(self) -> str:
        """The kernel's name, or several of them parted by blanks, or ""."""
        return self.texts.get("kernel_name", "")

    @property
    def uids(self) -> list[int] | None:
        """The launch uids, none or several in a run with concurrent kernels; None when the line is broken."""
        text = self.texts.get("kernel_launch_uid")
        if text is None or not text.isascii() or not all(uid.isdigit() and len(uid) < 19 for uid in text.split()):
            return None
        return [int(uid) for uid in text.split()]

    @property
    def rate(self) -> float | None:
        """Thread instructions per second of wall time."""
        text = self.texts.get("gpgpu_simulation_rate", "")
        value = number(text) if text.endswith("(inst/sec)") else None
        return None if value is None else float(value)

    @property
    def wall_seconds(self) -> float | None:
        """Seconds since the simulator's start."""
        seconds = wall_seconds(self.texts.get("gpgpu_simulation_time", ""))
        return None if seconds is None else float(seconds)


def _first_pairs(lines: Sequence[str], keys: frozenset[str]) -> Iterator[tuple[str, str]]:
    """`(key, text)` of the first line of each of `keys`; of the two simulation rates only the one in instructions."""
    left = set(keys)
    for line in lines:
        head, equals, tail = line.partition("=")
        if equals and (key := head.strip()) in left:
            if key == "gpgpu_simulation_rate" and "(cycle/sec)" in tail:
                continue
            left.discard(key)
            yield key, tail.strip()
            if not left:
                return
