"""What the command does: the process around a worker."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from cascade_server.contract.client import CascadeClient
from cascade_server.contract.states import SimState

from .lines import LineSplitter
from .replay import Replay, recording_info
from .source import SourceError
from .spool import Spool
from .verdict import LogScanner
from .worker import (
    EXIT_FAILED,
    EXIT_SUCCEEDED,
    EXIT_UNDELIVERED,
    EXIT_USAGE,
    SCANNED_LINE_BYTES,
    Worker,
    WorkerSettings,
)

log = logging.getLogger(__name__)

EXIT_BUG = 70
LOG_NAME = "simulator.log"


@dataclass(frozen=True, slots=True)
class Job:
    """One call of the command: `settings` are those of WorkerSettings without the folder."""

    url: str
    work_dir: Path | None
    settings: dict[str, Any]


def run_job(job: Job) -> int:
    """Work on a sim; returns the exit code."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", force=True
    )
    # Taken out of the environment: nothing that is started from here needs it.
    token = os.environ.pop("CASCADE_TOKEN", None)
    work_dir = job.work_dir.absolute() if job.work_dir else Path(tempfile.mkdtemp(prefix="cascade-worker-"))
    code = EXIT_BUG
    try:
        code = _work(job, work_dir, token)
    except Exception:
        log.exception("the worker broke")
    finally:
        if job.work_dir is None and code != EXIT_UNDELIVERED:
            shutil.rmtree(work_dir, ignore_errors=True)
        elif code == EXIT_UNDELIVERED:
            log.error("what the simulator printed is kept in %s", work_dir / LOG_NAME)
    return code


def _work(job: Job, work_dir: Path, token: str | None) -> int:
    try:
        work_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Made first and never overwritten: a second worker in the same folder must not touch the first one's files.
        spool = Spool(work_dir / LOG_NAME)
        _write_pid(work_dir / "worker.json")
    except FileExistsError:
        log.error("%s holds the files of a sim already: give each its own folder", work_dir)
        return EXIT_USAGE
    except OSError as error:
        log.error("the folder %s can't be used: %s", work_dir, error)
        return EXIT_USAGE
    with contextlib.closing(spool):
        return asyncio.run(_run(job, WorkerSettings(work_dir=work_dir, **job.settings), spool, token))


async def _run(job: Job, settings: WorkerSettings, spool: Spool, token: str | None) -> int:
    async with CascadeClient(job.url, token) as client:
        return await Worker(settings, client, spool).run()


def _write_pid(path: Path) -> None:
    """Say who works here, whole or not at all; a pid alone could be another process's by the time it is read."""
    process = psutil.Process()
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps({"pid": process.pid, "started": process.create_time()}))
    draft.replace(path)


def print_replay(recording: Path, speed: float, exit_code: int | None) -> int:
    """Replay to standard output, the verdict to standard error; returns 0 or 1 by the verdict."""
    info = recording_info(recording)
    scanner = LogScanner(info.gpu_config)
    splitter = LineSplitter(SCANNED_LINE_BYTES)

    def show(data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        scanner.feed(splitter.feed(data))

    code = exit_code if exit_code is not None else info.exit_code or 0
    source = Replay(recording, speed=speed, exit_code=code, wall_s=info.wall_s)
    try:
        asyncio.run(source.run(show))
    except SourceError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return EXIT_USAGE
    except BrokenPipeError:
        # Whoever read has enough; without this the interpreter complains when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    scanner.feed([splitter.rest()])
    verdict = scanner.verdict(code, info.listed_kernels)
    print(f"{verdict.state}: {verdict.error}" if verdict.error else verdict.state, file=sys.stderr)  # noqa: T201
    return EXIT_SUCCEEDED if verdict.state is SimState.SUCCEEDED else EXIT_FAILED
