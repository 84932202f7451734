"""The real Accel-Sim as a child process, in a process group of its own that never outlives the worker."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from .source import Sink, SourceError
from .verdict import shell_exit_code

log = logging.getLogger(__name__)

TERM_GRACE_S = 5.0
"""From SIGTERM to SIGKILL."""

EOF_GRACE_S = 1.0
"""How long after the simulator's end its output may stay open: children it left behind can hold it for ever."""

REAP_LIMIT_S = 10.0
READ_BYTES = 64 << 10
TETHER = Path(__file__).with_name("tether.py")


class Simulator:
    """Runs one command; stdout and stderr merged, in the order they were written."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        term_grace_s: float = TERM_GRACE_S,
        eof_grace_s: float = EOF_GRACE_S,
    ) -> None:
        self._command = command
        self._cwd = cwd
        self._env = env
        self._term_grace_s = term_grace_s
        self._eof_grace_s = eof_grace_s

    async def run(self, sink: Sink) -> int:
        """Run to the end; returns the exit code as a shell counts it. Raises SourceError if it can't be started.

        Cancelled, it sends the whole group SIGTERM and after a grace SIGKILL. In any case no process of the group is
        left when it returns.
        """
        # A pipe of our own: asyncio's would make `wait` wait for leftover children that hold it.
        read_fd, write_fd = os.pipe()
        try:
            try:
                process = await self._start(write_fd)
            finally:
                os.close(write_fd)
            reader = asyncio.create_task(_read(read_fd, sink))
            try:
                return await self._follow(process, reader)
            finally:
                await self._stop(process)
                reader.cancel()
                await asyncio.wait({reader})
        finally:
            os.close(read_fd)

    async def _start(self, output: int) -> asyncio.subprocess.Process:
        program = self._command[0]
        if shutil.which(program, path=self._env.get("PATH", os.defpath)) is None:
            raise SourceError(f"{program} could not be started: there is no such program.")
        try:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", str(TETHER), str(os.getpid())),
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._cwd,
                env=dict(self._env),
                start_new_session=True,
            )
        except OSError as error:
            raise SourceError(f"{program} could not be started: {error.strerror}.") from error

    async def _follow(self, process: asyncio.subprocess.Process, reader: asyncio.Task[None]) -> int:
        ended = asyncio.create_task(process.wait())
        try:
            await asyncio.wait({ended, reader}, return_when=asyncio.FIRST_COMPLETED)
            if reader.done():
                reader.result()  # what the sink raised ends the run; else the output is closed
            returncode = await ended
        finally:
            ended.cancel()
        await asyncio.wait({reader}, timeout=self._eof_grace_s)
        if not reader.done():
            log.warning("the simulator has ended but left a child that holds its output: killing its group")
            _signal_group(process.pid, signal.SIGKILL)
            await asyncio.wait({reader}, timeout=self._eof_grace_s)
        if reader.done():
            reader.result()
        return shell_exit_code(returncode)

    async def _stop(self, process: asyncio.subprocess.Process) -> None:
        if process.returncode is None:
            log.info("stopping the simulator, process group %d", process.pid)
            _signal_group(process.pid, signal.SIGTERM)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._term_grace_s):
                    await process.wait()
        # Also after a good end: the group may hold a child that was left behind.
        _signal_group(process.pid, signal.SIGKILL)
        try:
            async with asyncio.timeout(REAP_LIMIT_S):
                await process.wait()
        except TimeoutError:
            log.error("process %d does not end, even by SIGKILL", process.pid)


async def _read(fd: int, sink: Sink) -> None:
    """Hand on whatever comes, lines of any length, until the last writer closes the pipe."""
    loop = asyncio.get_running_loop()
    os.set_blocking(fd, False)
    readable = asyncio.Event()
    loop.add_reader(fd, readable.set)
    try:
        while True:
            await readable.wait()
            readable.clear()
            try:
                data = os.read(fd, READ_BYTES)
            except BlockingIOError:
                continue
            if not data:
                return
            sink(data)
    finally:
        loop.remove_reader(fd)


def _signal_group(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
