"""Between the simulator's end and the last heartbeat: the step timeline and the output files.

Nothing here ever fails a sim: what goes wrong is a line in the worker's log, and what is wrong with the step timeline's
files is one in the sim's. The raw log is what was printed before this began: lines added to the sim's are not in it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from .delivery import Delivery
from .kernel_stats import write_csv
from .lines import Interrupted, file_lines
from .outputs import STATS_FILE, upload_log, upload_run, upload_stats
from .prediction import Prediction, predict
from .reporter import Server
from .retry import SimOver, Undeliverable
from .spool import Spool, SpoolError
from .workspace import read_core_clock_mhz

if TYPE_CHECKING:
    from .worker import WorkerSettings

log = logging.getLogger(__name__)

T = TypeVar("T")


class Aftermath:
    """Make it when the simulator has ended and before anything is added to its log."""

    def __init__(
        self, settings: WorkerSettings, server: Server, spool: Spool, *, sleep: Callable[[float], Awaitable[None]]
    ) -> None:
        self._settings = settings
        self._spool = spool
        self._printed = spool.size
        self._delivery = Delivery(server, settings.sim_id, patience_s=settings.patience_s, sleep=sleep)
        self._prediction = Prediction()

    async def predict(self) -> None:
        """After a success: compute the step timeline; what is wrong with its files becomes lines of the sim's log."""
        settings = self._settings
        if settings.trace is None or settings.stand_in:
            return
        trace = settings.trace
        try:
            self._prediction = await _in_thread(
                lambda stopped: predict(trace, self._spool.path, self._printed, self._core_clock_mhz(), stopped)
            )
            for remark in self._prediction.remarks:
                log.warning("%s", remark)
                self._spool.write_line(f"cascade: {remark}".encode())
        except SpoolError as error:
            log.warning("the sim's log lacks the worker's remarks: %s", error)
        except Exception:
            log.exception("no step timeline could be made")

    async def upload(self) -> None:
        """Send everything; the log must have been delivered. Raises SimOver."""
        steps = (self._upload_timeline, self._upload_log, self._upload_stats, self._upload_run)
        for step in steps:
            try:
                await step()
            except OSError as error:
                log.warning("an output file is left out: %s", error)
            except Undeliverable as error:
                # The verdict is worth another try.
                log.error("the other output files are left out: %s", error)
                return
            except SimOver:
                raise
            except Exception:
                log.exception("output files are left out")

    async def _upload_timeline(self) -> None:
        if self._prediction.body is not None:
            await self._delivery.post_step_timeline(self._prediction.body)

    async def _upload_log(self) -> None:
        await upload_log(self._delivery, self._spool.path, self._printed)

    async def _upload_stats(self) -> None:
        path = self._settings.work_dir / STATS_FILE
        try:
            kernels = await _in_thread(
                lambda stopped: write_csv(
                    file_lines(self._spool.path, self._printed, stopped), path, self._core_clock_mhz()
                )
            )
            if kernels:
                await upload_stats(self._delivery, path)
        finally:
            path.unlink(missing_ok=True)

    async def _upload_run(self) -> None:
        await upload_run(self._delivery, self._settings.work_dir / "run")

    def _core_clock_mhz(self) -> float | None:
        settings = self._settings
        known = None
        if settings.replay_log is None and settings.accelsim_dir is not None and settings.gpu_config is not None:
            known = read_core_clock_mhz(settings.accelsim_dir, settings.gpu_config)
        return known or settings.core_clock_mhz or None


async def _in_thread(work: Callable[[Callable[[], bool]], T]) -> T:
    """Run `work` in a thread and hand it a function that tells when to stop; cancelled, it is told so."""
    stop = threading.Event()

    def run() -> T | None:
        try:
            return work(stop.is_set)
        except Interrupted:
            return None  # nobody waits for it

    try:
        result = await asyncio.to_thread(run)
    except asyncio.CancelledError:
        stop.set()
        raise
    assert result is not None
    return result
