"""The simulator's log, line by line → finished kernels and live progress.

`LogParser` is incremental: fed with a log in any portions it gives the same events, and a `Checkpoint` taken between
two portions lets another parser go on from the stored log. It is pure (no clock, no files) and never raises on a line.

What a log looks like is described by the recordings in `tests/data/recordings`. In short, for each kernel:

    Processing kernel <path>                                 the trace header is read (in a run with concurrent kernels
    -kernel name = …                                         many headers come before the first launch); the simulator
    -grid dim = (16,1,1)                                     numbers kernels (uid) in the order of the headers
    launching kernel name: … uid: 1 cuda_stream_id: 0
    thread block = 0,0,0                                     once for each block of the grid that is issued
    Destroy streams for kernel 1: size 0
    kernel_name = …                                          the stats block
    …
    gpgpu_silicon_slowdown = 193240x

A block ends with the line `gpgpu_silicon_slowdown = …`, or before the next line that the simulator prints only outside
of blocks, since another program's message can break its last line. When it is followed by another `kernel_name = …`
instead, its end is lost and what follows may be another kernel's: such a block is dropped, never merged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import NamedTuple

from cascade_server.simlog.blocks import BlockFields, KernelBlock, PartialMark, Totals
from cascade_server.simlog.stats import block_stats

__all__ = ["Checkpoint", "KernelBlock", "LogParser", "PartialMark", "Totals", "block_stats"]

MAX_BLOCK_LINES = 200_000
"""A block is given up after so many lines (real ones: up to 5,000, more when requests of other kernels are pending)."""

_MAX_HEADERS = 256  # read but not launched; more than the simulator's window of concurrent kernels
_MARK = 7  # characters that tell apart the lines that mean something outside of `block_stats`
_LAUNCH = re.compile(r"launching kernel name: (.*?)(?: uid: ([0-9]{1,18})(?: cuda_stream_id: ([0-9]{1,40}))?)?\s*")
_GRID = re.compile(r"-grid dim = \(([0-9]{1,10}),([0-9]{1,10}),([0-9]{1,10})\)\s*")
_LIVENESS = re.compile(r"GPGPU-Sim Cycle [0-9]+: LIVENESS - uArch: inst\.: ([0-9]{1,18}) ")
_KERNEL_NAME = "-kernel name = "

_NO_TOTALS = Totals()

Event = KernelBlock | PartialMark


class Launch(NamedTuple):
    """A kernel that was launched and has had no block of its own yet."""

    uid: int | None
    name: str
    stream: int | None


class Header(NamedTuple):
    """A trace header that was echoed, its kernel not launched yet."""

    number: int
    """From 1 in the order of the headers, as the simulator gives out uids."""
    name: str
    blocks: int | None
    """Thread blocks of the grid."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """All that a parser knows as of line `line` (from 0) of the log, the first that another parser must be fed with.

    Inside a block `line` is the block's first line: nothing but the block itself changes while it lasts, so neither its
    lines nor anything read from them need to be kept.
    """

    line: int = 0
    kernels_done: int = 0
    launched: int = 0
    current_kernel: str | None = None
    blocks_issued: int | None = None
    blocks_total: int | None = None
    live_insn: int | None = None
    metrics: Totals = _NO_TOTALS
    exit_detected: bool = False
    limit_may_follow: bool = False
    """No kernel was launched since the last block: a break line would be about that block."""
    headers_read: int = 0
    headers: tuple[Header, ...] = ()
    running: tuple[Launch, ...] = ()

    def to_json(self) -> str:
        """ASCII, some hundred bytes (more while many kernels wait for their launch)."""
        return json.dumps(asdict(self) | {"headers": self.headers, "running": self.running}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Checkpoint:
        """The checkpoint that `to_json` wrote; ValueError, TypeError or KeyError when it is something else."""
        fields = json.loads(text)
        return cls(
            **fields
            | {
                "metrics": Totals(**fields["metrics"]),
                "headers": tuple(Header(*header) for header in fields["headers"]),
                "running": tuple(Launch(*launch) for launch in fields["running"]),
            }
        )


class LogParser:
    """Reads one sim's log from its start, or from a checkpoint's line. The public attributes are the live progress."""

    def __init__(self, checkpoint: Checkpoint | None = None) -> None:
        start = checkpoint or Checkpoint()
        self.next_line = start.line
        """Number (from 0) of the line that `feed` expects next."""
        self.kernels_done = start.kernels_done
        self.launched = start.launched
        self.current_kernel = start.current_kernel
        """The name in the last `launching kernel name:` line, also when that kernel has finished."""
        self.blocks_issued = start.blocks_issued
        """Thread blocks issued since the running kernel was launched; None when no kernel runs, or several do: a line
        `thread block = …` doesn't say whose it is."""
        self.blocks_total = start.blocks_total
        """Thread blocks in its grid; None like `blocks_issued`, or when its header wasn't echoed."""
        self.live_insn = start.live_insn
        """Thread instructions simulated so far over all kernels, by the last LIVENESS line; None without such lines."""
        self.metrics = start.metrics
        """Of the last block."""
        self.exit_detected = start.exit_detected
        self._limit_may_follow = start.limit_may_follow
        self._headers_read = start.headers_read
        self._headers = list(start.headers)
        self._running = list(start.running)
        self._block_line: int | None = None  # the open block's first line
        self._block_head: list[str] = []  # its lines from earlier calls of feed
        self._batch: list[str] = []
        self._batch_line = start.line
        self._events: list[Event] = []

    @property
    def checkpoint(self) -> Checkpoint:
        """Where another parser can go on; see `Checkpoint`."""
        return Checkpoint(
            line=self.next_line if self._block_line is None else self._block_line,
            kernels_done=self.kernels_done,
            launched=self.launched,
            current_kernel=self.current_kernel,
            blocks_issued=self.blocks_issued,
            blocks_total=self.blocks_total,
            live_insn=self.live_insn,
            metrics=self.metrics,
            exit_detected=self.exit_detected,
            limit_may_follow=self._limit_may_follow,
            headers_read=self._headers_read,
            headers=tuple(self._headers),
            running=tuple(self._running),
        )

    def feed(self, lines: Iterable[str]) -> list[Event]:
        """Reads the next lines, complete and without their "\\n", and gives what they finished, in order.

        A line may hold anything else: "\\r", NUL, escapes, lone surrogates, and be of any length.
        """
        batch = lines if isinstance(lines, list) else list(lines)
        marked = _marked(batch)
        if marked is None:  # against the contract, but numbers of lines must not shift
            batch = [line.replace("\n", " ") for line in batch]
            marked = _marked(batch) or []
        self._batch, self._batch_line, self._events = batch, self.next_line, []
        for index in marked:
            line, number = batch[index], self.next_line + index
            self._give_up_endless_block(number)
            _HANDLERS[line[:_MARK]](self, line, number)
        self.next_line += len(batch)
        self._give_up_endless_block(self.next_line)
        if self._block_line is not None:
            self._block_head += batch[max(self._block_line - self._batch_line, 0) :]
        events, self._batch, self._events = self._events, [], []  # hold on to no lines but an open block's
        return events

    # A stats block

    def _on_kernel_line(self, line: str, number: int) -> None:
        if line.startswith("kernel_name ="):
            self._drop_block(number)
            self._block_line = number
        elif self._block_line is None and line.startswith("kernel_launch_uid ="):
            # Something broke the `kernel_name` line: the block is still there to be counted, its name to be inferred.
            self._block_line = number

    def _on_block_end(self, line: str, number: int) -> None:
        if self._block_line is not None and line.startswith("gpgpu_silicon_slowdown ="):
            lines = self._take_block(number + 1)
            self._finish_block(lines, BlockFields.read(lines), number + 1 - len(lines), partial=False)

    def _close_block(self, number: int, *, partial: bool = False) -> None:
        """Ends an open block before line `number`, which the simulator prints only outside of blocks."""
        if self._block_line is None:
            return
        lines = self._take_block(number)
        fields = BlockFields.read(lines)
        if _has_counts(fields):
            self._finish_block(lines, fields, number - len(lines), partial=partial)

    def _drop_block(self, number: int) -> None:
        """Forgets an open block whose end didn't come before line `number`; its kernel runs no more, though."""
        if self._block_line is None:
            return
        fields = BlockFields.read(self._take_block(number))
        if _has_counts(fields):
            self._retire(fields)

    def _give_up_endless_block(self, number: int) -> None:
        """Drops an open block that line `number` would make too long, wherever the portions of the log end."""
        if self._block_line is not None and number - self._block_line > MAX_BLOCK_LINES:
            self._drop_block(number)

    def _take_block(self, end: int) -> tuple[str, ...]:
        """The open block's lines up to line `end` (exclusive); none is open afterwards."""
        assert self._block_line is not None
        start = max(self._block_line - self._batch_line, 0)
        lines = (*self._block_head, *self._batch[start : end - self._batch_line])
        self._block_line = None
        self._block_head = []
        return lines

    def _finish_block(self, lines: tuple[str, ...], fields: BlockFields, first_line: int, *, partial: bool) -> None:
        name, uids = fields.name, fields.uids
        uid = uids[0] if uids is not None and len(uids) == 1 else None
        inferred = None if name else self._infer(uids)
        block = KernelBlock(
            kernel_index=self.kernels_done,
            kernel_name=inferred.name if inferred else name,
            name_inferred=inferred is not None,
            kernel_launch_uid=inferred.uid if inferred else uid,
            stream_id=fields.integer("kernel_stream_id"),
            gpu_sim_cycle=fields.integer("gpu_sim_cycle"),
            gpu_sim_insn=fields.integer("gpu_sim_insn"),
            gpu_ipc=fields.real("gpu_ipc"),
            gpu_tot_sim_cycle=fields.integer("gpu_tot_sim_cycle"),
            gpu_tot_sim_insn=fields.integer("gpu_tot_sim_insn"),
            gpu_tot_ipc=fields.real("gpu_tot_ipc"),
            sim_rate_ips=fields.rate,
            sim_time_s=fields.wall_seconds,
            first_line=first_line,
            line_count=len(lines),
            partial=partial,
            lines=lines,
        )
        self._retire(fields)
        self.kernels_done += 1
        self.metrics = block.totals()
        self._limit_may_follow = not partial
        self._events.append(block)

    def _infer(self, uids: list[int] | None) -> Launch | None:
        """The launched kernel that a block without a name must be of: the one of its uid, else the only one left."""
        if uids:
            named = [launch for launch in self._running if launch.uid in uids]
            return named[0] if len(uids) == len(named) == 1 else None
        return self._running[0] if len(self._running) == 1 else None

    def _retire(self, fields: BlockFields) -> None:
        """Takes the kernel that a block means has finished off the running ones.

        The uids of a block are the kernels that started since the block before it, so the stream decides where there is
        more than one: a stream runs its kernels one after another, in the order of their launch.
        """
        if not self._running:
            return
        stream, uids = fields.integer("kernel_stream_id"), fields.uids or []
        on_stream = [launch for launch in self._running if stream in (None, launch.stream)] or self._running
        named = [launch for launch in on_stream if launch.uid in uids]
        finished = named[0] if len(uids) == 1 and named else on_stream[0]
        last = self._running.index(finished)
        self._running = [
            launch for index, launch in enumerate(self._running) if index > last or launch.stream != finished.stream
        ]
        if not self._running:
            self.blocks_issued = self.blocks_total = None

    # Between blocks

    def _on_launch(self, line: str, number: int) -> None:
        match = _LAUNCH.fullmatch(line) if line.startswith("launching kernel name: ") else None
        self._close_block(number)
        if match is None:
            return
        name, uid, stream = match.groups()
        launch = Launch(int(uid) if uid else None, name.strip(), int(stream) if stream else None)
        self.launched += 1
        self.current_kernel = launch.name
        self._limit_may_follow = False
        blocks = self._take_header(launch)
        alone = not self._running
        self._running.append(launch)
        self.blocks_issued = 0 if alone else None
        self.blocks_total = blocks if alone else None

    def _take_header(self, launch: Launch) -> int | None:
        """The blocks in the grid of the kernel just launched; its header waits no more."""
        same_name = [header for header in self._headers if header.name == launch.name]
        header = next((header for header in same_name if header.number == launch.uid), None)
        if header is None and len(same_name) == 1:
            header = same_name[0]
        if header is None:
            return None
        self._headers.remove(header)
        return header.blocks

    def _on_trace_header(self, line: str, number: int) -> None:
        if line.startswith(_KERNEL_NAME):
            self._close_block(number)
            self._headers_read += 1
            self._headers.append(Header(self._headers_read, line[len(_KERNEL_NAME) :].strip(), None))
            del self._headers[:-_MAX_HEADERS]

    def _on_grid(self, line: str, _: int) -> None:
        match = _GRID.fullmatch(line)
        if match and self._headers and self._headers[-1].number == self._headers_read:
            x, y, z = match.groups()
            self._headers[-1] = self._headers[-1]._replace(blocks=int(x) * int(y) * int(z))

    def _on_thread_block(self, line: str, number: int) -> None:
        if line.startswith("thread block = "):
            self._close_block(number)
            if self.blocks_issued is not None:
                self.blocks_issued += 1

    def _on_phase(self, line: str, number: int) -> None:
        if line.startswith(("Processing kernel ", "Destroy streams for kernel ")):
            self._close_block(number)

    def _on_simulator(self, line: str, number: int) -> None:
        if line.startswith("GPGPU-Sim: ***"):
            self._close_block(number)
            if line.startswith("GPGPU-Sim: *** exit detected ***"):
                self.exit_detected = True
                self._running = []
                self.blocks_issued = self.blocks_total = None
        elif line.startswith("GPGPU-Sim: ** break due to reaching the maximum"):
            self._close_block(number, partial=True)
            if self._limit_may_follow:
                self._events.append(PartialMark(self.kernels_done - 1))
                self._limit_may_follow = False
        elif self._block_line is None and (match := _LIVENESS.match(line)):
            self.live_insn = int(match[1])


def _has_counts(fields: BlockFields) -> bool:
    """Whether these are a block's, and not a stray line that looks like the first of one."""
    return fields.integer("gpu_sim_cycle") is not None or fields.integer("gpu_tot_sim_cycle") is not None


def _marked(batch: list[str]) -> list[int] | None:
    """The indices of the lines that have a handler; None when a line holds a "\n".

    Nearly all lines of a log have none. One search through the joined text costs a third of looking at each line.
    """
    text = "\n" + "\n".join(batch)
    indices = []
    index, end = -1, 0
    for match in _MARKED.finditer(text):
        start = match.start() + 1
        index += text.count("\n", end, start)
        end = start
        indices.append(index)
    return indices if index + text.count("\n", end) == len(batch) - 1 else None


_HANDLERS: dict[str, Callable[[LogParser, str, int], None]] = {
    "kernel_": LogParser._on_kernel_line,
    "gpgpu_s": LogParser._on_block_end,
    "launchi": LogParser._on_launch,
    "-kernel": LogParser._on_trace_header,
    "-grid d": LogParser._on_grid,
    "thread ": LogParser._on_thread_block,
    "Process": LogParser._on_phase,
    "Destroy": LogParser._on_phase,
    "GPGPU-S": LogParser._on_simulator,
}
_MARKED = re.compile("\n(?:" + "|".join(map(re.escape, _HANDLERS)) + ")")
