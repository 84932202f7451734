"""The loop of a worker: start → stream → verdict → last lines → output files → final heartbeat.

Heartbeats run on a clock of their own beside the upload of the log, so neither delays the other. Whatever ends the
work early (cancelled, told to stop, the sim over) stops the simulator's whole process group first.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from cascade_server.contract.client import CascadeError
from cascade_server.contract.models import Heartbeat, HeartbeatReply
from cascade_server.contract.states import SimState

from .aftermath import Aftermath
from .lines import LineSplitter
from .replay import Replay, recording_info
from .reporter import Reporter, Server
from .retry import Backoff, SimOver, Undeliverable, check_retryable
from .simulator import Simulator
from .source import Source, SourceError
from .spool import Spool, SpoolError
from .verdict import LogScanner, Verdict
from .workspace import prepare, read_kernel_list

log = logging.getLogger(__name__)

EXIT_SUCCEEDED = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_CANCELLED = 3
EXIT_UNDELIVERED = 4

FIRST_BEAT_LIMIT_S = 5.0
"""A simulator starts without the server's first answer after so long."""

SCANNED_LINE_BYTES = 64 << 10
"""Of a longer line the verdict reads only the beginning."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """One sim's work. Either `replay_log` or `accelsim_dir` says what to run; times are seconds."""

    sim_id: str
    gpu_config: str | None
    work_dir: Path
    trace: Path | None = None
    accelsim_dir: Path | None = None
    core_clock_mhz: float | None = None
    replay_log: Path | None = None
    replay_speed: float = 1.0
    replay_exit_code: int | None = None
    stand_in: bool = False
    heartbeat_s: float = 10.0
    patience_s: float = 86_400.0
    term_grace_s: float = 5.0
    eof_grace_s: float = 1.0
    stop_limit_s: float = 8.0
    """How long the last lines and the last heartbeat may take after a signal: who sent it will not wait for ever."""


class Halt(Enum):
    """Why the work was ended before the simulator did."""

    CANCELLED = "the server cancelled the sim"
    SIGNAL = "a signal"
    OVER = "the sim is over or not ours"


@dataclass(frozen=True, slots=True)
class Ending:
    """How the simulator ended; no exit code when it never started."""

    verdict: Verdict
    exit_code: int | None = None


def failed(error: str, exit_code: int | None = None) -> Ending:
    """An ending with a sentence of the worker's own."""
    return Ending(Verdict(SimState.FAILED, error), exit_code)


class Worker:
    """Runs one sim. Make it inside a running loop, and call `run` once."""

    def __init__(
        self,
        settings: WorkerSettings,
        server: Server,
        spool: Spool,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._settings = settings
        self._server = server
        self._spool = spool
        self._sleep = sleep
        self._reporter = Reporter(server, settings.sim_id, spool, patience_s=settings.patience_s, sleep=sleep)
        self._splitter = LineSplitter(SCANNED_LINE_BYTES)
        self._scanner = LogScanner(settings.gpu_config)
        self._listed: int | None = None
        self._halted = asyncio.Event()
        self._halt: Halt | None = None
        self._signal: signal.Signals | None = None
        self._beaten = asyncio.Event()

    async def run(self) -> int:
        """Do all of it; returns the process's exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._told_to_stop, number)
        try:
            async with asyncio.TaskGroup() as tasks:
                beats = tasks.create_task(self._heartbeats())
                sender = tasks.create_task(self._send())
                try:
                    return await self._work(tasks, beats, sender)
                finally:
                    beats.cancel()
                    sender.cancel()
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)

    async def _work(self, tasks: asyncio.TaskGroup, beats: asyncio.Task[None], sender: asyncio.Task[str | None]) -> int:
        await self._first_of(self._beaten.wait(), limit_s=FIRST_BEAT_LIMIT_S)
        ending = await self._simulate(tasks)
        aftermath = Aftermath(self._settings, self._server, self._spool, sleep=self._sleep)
        if ending.verdict.state is SimState.SUCCEEDED:
            await self._unless_halted(tasks, aftermath.predict())
        self._reporter.close()
        if self._halt is None:
            await self._first_of(_ended(sender))
        await self._unless_halted(tasks, self._upload(aftermath))
        if self._halt is not None:
            return await self._report_halt(tasks, ending, beats, sender)
        beats.cancel()
        final = tasks.create_task(self._finish(ending))
        await self._first_of(_ended(final))
        if not final.done():
            await asyncio.wait({final}, timeout=self._settings.stop_limit_s)
            final.cancel()
        return final.result() if final.done() else EXIT_UNDELIVERED

    # -- the simulator -----------------------------------------------------------------------

    async def _simulate(self, tasks: asyncio.TaskGroup) -> Ending:
        if self._halt is not None:
            return failed("It was never started.")
        running = tasks.create_task(self._run_source())
        await self._first_of(_ended(running))
        if not running.done():
            log.info("stopping: %s", self._reason())
            running.cancel()
            await asyncio.wait({running})
        ending = failed("It was stopped.") if running.cancelled() else running.result()
        self._scanner.feed([self._splitter.rest()])
        return ending

    async def _run_source(self) -> Ending:
        try:
            source = await asyncio.to_thread(self._source)
            exit_code = await source.run(self._take)
        except (SourceError, SpoolError) as error:
            return failed(str(error))
        except OSError as error:
            log.exception("the simulator's run broke")
            return failed(f"The worker could not go on: {error}.")
        self._scanner.feed([self._splitter.rest()])
        verdict = self._scanner.verdict(exit_code, self._listed)
        log.info("the simulator ended with exit code %d: %s", exit_code, verdict.error or verdict.state)
        return Ending(verdict, exit_code)

    def _source(self) -> Source:
        settings = self._settings
        if settings.replay_log is not None:
            return self._replay(settings.replay_log)
        if settings.accelsim_dir is None or settings.trace is None or settings.gpu_config is None:
            raise SourceError("The worker was given neither a recording nor Accel-Sim with a trace and a GPU config.")
        launch = prepare(
            settings.accelsim_dir, settings.gpu_config, settings.trace, settings.work_dir / "run", os.environ
        )
        self._listed = len(launch.kernels.kernels)
        log.info("starting %s in %s", " ".join(launch.command), launch.cwd)
        return Simulator(
            launch.command,
            cwd=launch.cwd,
            env=launch.env,
            term_grace_s=settings.term_grace_s,
            eof_grace_s=settings.eof_grace_s,
        )

    def _replay(self, recording: Path) -> Source:
        settings = self._settings
        info = recording_info(recording)
        if settings.stand_in:
            # Another trace's recording is judged by what it shows itself.
            self._scanner = LogScanner(info.gpu_config)
        else:
            self._listed = info.listed_kernels
            if settings.trace is not None:
                self._listed = len(read_kernel_list(settings.trace).kernels)
        exit_code = settings.replay_exit_code if settings.replay_exit_code is not None else info.exit_code or 0
        log.info("replaying %s at speed %g%s", recording, settings.replay_speed, ", stand-in" * settings.stand_in)
        return Replay(recording, speed=settings.replay_speed, exit_code=exit_code, wall_s=info.wall_s)

    def _take(self, data: bytes) -> None:
        self._spool.write(data)
        self._reporter.notify()
        self._scanner.feed(self._splitter.feed(data))

    # -- the server --------------------------------------------------------------------------

    async def _heartbeats(self) -> None:
        backoff = Backoff()
        while self._halt is not Halt.OVER:
            pause = self._settings.heartbeat_s
            try:
                reply = await self._server.heartbeat(self._settings.sim_id, Heartbeat(state=SimState.RUNNING))
                backoff.reset()
                if reply.cancel:
                    self._stop(Halt.CANCELLED)
                    return
            except CascadeError as error:
                try:
                    check_retryable(error, self._settings.sim_id)
                except (SimOver, Undeliverable) as refusal:
                    log.error("heartbeat refused: %s", refusal)
                    self._stop(Halt.OVER)
                    return
                pause = min(pause, backoff.next())
                log.warning("heartbeat failed: %s", error)
            finally:
                self._beaten.set()
            await self._sleep(pause)

    async def _send(self) -> str | None:
        """Deliver the log; returns a sentence when that can't be done."""
        try:
            await self._reporter.run()
        except SimOver as error:
            self._stop(Halt.OVER)
            return f"The sim is over or not ours: {error}"
        except Undeliverable as error:
            self._stop(Halt.OVER)
            return str(error)
        return None

    async def _upload(self, aftermath: Aftermath) -> None:
        try:
            await aftermath.upload()
        except SimOver as error:
            log.error("the sim is over or not ours: %s", error)
            self._stop(Halt.OVER)

    async def _finish(self, ending: Ending) -> int:
        verdict = ending.verdict
        beat = Heartbeat(
            state=SimState.SUCCEEDED if verdict.state is SimState.SUCCEEDED else SimState.FAILED,
            error=verdict.error,
            exit_code=ending.exit_code,
        )
        try:
            reply: HeartbeatReply = await self._reporter.finish(beat)
        except (SimOver, Undeliverable) as error:
            log.error("the final heartbeat was not taken: %s", error)
            return EXIT_UNDELIVERED
        if reply.cancel:
            return EXIT_CANCELLED
        return EXIT_SUCCEEDED if verdict.state is SimState.SUCCEEDED else EXIT_FAILED

    async def _report_halt(
        self,
        tasks: asyncio.TaskGroup,
        ending: Ending,
        beats: asyncio.Task[None],
        sender: asyncio.Task[str | None],
    ) -> int:
        """Say what can still be said, quickly."""
        log.info("ending early: %s", self._reason())
        if self._halt is Halt.OVER:
            if sender.done() and (undelivered := sender.result()):
                log.error("%s", undelivered)
            return EXIT_UNDELIVERED
        beats.cancel()
        limit_s = self._settings.stop_limit_s
        await asyncio.wait({sender}, timeout=limit_s / 2)
        if self._halt is Halt.CANCELLED:
            return EXIT_CANCELLED
        whole = sender.done() and ending.exit_code is not None and ending.exit_code != 128 + (self._signal or 0)
        if not whole:
            # Also when the simulator had succeeded: without its last lines the server lacks kernels.
            ending = failed(f"The worker was told to stop ({self._reason()}).", ending.exit_code)
        final = tasks.create_task(self._finish(ending))
        await asyncio.wait({final}, timeout=limit_s / 2)
        if not final.done():
            final.cancel()
            return EXIT_UNDELIVERED
        return final.result()

    # -- ending early ------------------------------------------------------------------------

    def _told_to_stop(self, number: signal.Signals) -> None:
        log.info("got %s", number.name)
        self._signal = self._signal or number
        self._stop(Halt.SIGNAL)

    def _stop(self, why: Halt) -> None:
        self._halt = self._halt or why
        self._halted.set()

    def _reason(self) -> str:
        if self._halt is Halt.SIGNAL and self._signal is not None:
            return self._signal.name
        return self._halt.value if self._halt is not None else ""

    async def _unless_halted(self, tasks: asyncio.TaskGroup, work: Coroutine[Any, Any, None]) -> None:
        """Do `work`, or as much of it as a halt leaves time for, which is none after it."""
        if self._halt is not None:
            work.close()
            return
        task = tasks.create_task(work)
        await self._first_of(_ended(task))
        if not task.done():
            task.cancel()
            await asyncio.wait({task})

    async def _first_of(self, event: Awaitable[object], *, limit_s: float | None = None) -> None:
        """Wait until `event`, a halt or the limit, whichever comes first."""
        waiting = {asyncio.ensure_future(event), asyncio.ensure_future(self._halted.wait())}
        try:
            await asyncio.wait(waiting, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiter in waiting:
                waiter.cancel()


async def _ended(task: asyncio.Task[object]) -> None:
    """Wait for a task without passing on a cancellation or an error."""
    await asyncio.wait({task})
