"""Workers as processes of this machine, in sessions of their own, so that they outlive the server.

Each sim has a folder with `worker.lock`, locked (flock) by the launcher before the fork and inherited by the worker,
so that it is held exactly as long as the worker lives, whoever started it. That makes a second start impossible and
tells after a restart which workers are still there. `worker.json`, written by the worker first of all, gives its pid
and start time, which must both fit before a signal is sent.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from cascade_server.db.sims import LaunchSpec
from cascade_server.errors import LaunchError
from cascade_server.settings import Settings

from .base import Launcher, Observation, Presence, WorkerAccess

KILL_AFTER_S = 15.0
"""A worker stops its simulator within a few seconds of SIGTERM; one that doesn't is killed after this."""

LOG_EXCERPT_LINES = 3


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """What `worker.json` says."""

    pid: int
    started: float

    def alive(self) -> psutil.Process | None:
        """The process, if it is this one and not another that got its pid."""
        try:
            process = psutil.Process(self.pid)
            return process if abs(process.create_time() - self.started) < 1.0 else None
        except psutil.Error:
            return None


class LocalLauncher(Launcher):
    """Starts `python -m cascade_worker` for each sim."""

    def __init__(self, settings: Settings) -> None:
        self.slots = settings.max_local_sims
        self._settings = settings
        self._root = settings.data_dir / "sims"
        self._children: dict[str, int] = {}
        self._exits: dict[str, int] = {}
        self._kill_at: dict[str, float] = {}

    async def submit(self, spec: LaunchSpec, access: WorkerAccess) -> str:
        """Start a worker, or find the one that runs already."""
        return await asyncio.to_thread(self._submit, spec, access)

    async def observe(self, sim_ids: Collection[str]) -> Mapping[str, Observation]:
        """Look at the locks; also kills workers that ignored a cancel for too long."""
        return await asyncio.to_thread(self._observe, list(sim_ids))

    async def cancel(self, sim_id: str) -> None:
        """SIGTERM now, SIGKILL later if need be."""
        await asyncio.to_thread(self._cancel, sim_id)

    async def clean(self, sim_id: str) -> bool:
        """Remove the simulator's directory and its raw log, which the server has; the worker's own log stays."""
        return await asyncio.to_thread(self._clean, sim_id)

    async def left_behind(self) -> Collection[str]:
        """Sims whose folder still holds a raw log."""
        found = await asyncio.to_thread(lambda: list(self._root.glob("*/simulator.log")))
        return [path.parent.name for path in found]

    # -- in a thread -------------------------------------------------------------------------

    def _folder(self, sim_id: str) -> Path:
        return self._root / sim_id

    def _submit(self, spec: LaunchSpec, access: WorkerAccess) -> str:
        folder = self._folder(spec.sim_id)
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = _try_lock(folder / "worker.lock")
        except OSError as error:
            raise LaunchError(f"The sim's folder {folder} can't be used: {error.strerror}.") from error
        if lock is None:
            return str(_wait_for_worker(folder).pid)
        try:
            if (folder / "worker.json").exists():
                raise LaunchError(_ended_sentence(folder, None))
            pid = _spawn(folder, lock, self._environment(spec, access, folder))
        finally:
            os.close(lock)
        self._children[spec.sim_id] = pid
        return str(pid)

    def _environment(self, spec: LaunchSpec, access: WorkerAccess, folder: Path) -> dict[str, str]:
        # The server's own CASCADE_* settings, its token above all, must not reach the worker.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CASCADE_")}
        environment |= {
            "CASCADE_URL": access.url,
            "CASCADE_TOKEN": access.token,
            "CASCADE_SIM_ID": spec.sim_id,
            "CASCADE_GPU_CONFIG": spec.gpu_config,
            "CASCADE_CORE_CLOCK_MHZ": f"{spec.core_clock_mhz:g}",
            "CASCADE_TRACE": spec.trace_path,
            "CASCADE_WORK_DIR": str(folder),
            "CASCADE_HEARTBEAT_S": f"{min(10.0, self._settings.heartbeat_timeout_s / 4):g}",
        }
        if spec.replay_log is not None:
            environment |= {
                "CASCADE_REPLAY_LOG": spec.replay_log,
                "CASCADE_REPLAY_SPEED": f"{self._settings.replay_speed:g}",
                "CASCADE_REPLAY_STAND_IN": "1" if spec.stand_in else "0",
            }
        elif self._settings.accelsim_dir is not None:
            environment["CASCADE_ACCELSIM_DIR"] = str(self._settings.accelsim_dir)
        return environment

    def _observe(self, sim_ids: list[str]) -> dict[str, Observation]:
        self._reap()
        self._kill_stubborn()
        return {sim_id: self._look(sim_id) for sim_id in sim_ids}

    def _look(self, sim_id: str) -> Observation:
        folder = self._folder(sim_id)
        if _locked(folder / "worker.lock"):
            return Observation(Presence.ALIVE)
        exit_code = self._exits.get(sim_id)
        return Observation(Presence.GONE, _ended_sentence(folder, exit_code), exit_code)

    def _reap(self) -> None:
        for sim_id, pid in list(self._children.items()):
            try:
                done, status = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                done, status = pid, 0
            if done:
                del self._children[sim_id]
                self._exits[sim_id] = os.waitstatus_to_exitcode(status)

    def _cancel(self, sim_id: str) -> None:
        folder = self._folder(sim_id)
        if not _locked(folder / "worker.lock"):
            return
        worker = _read_worker(folder)
        process = worker.alive() if worker else None
        if process is not None:
            process.send_signal(signal.SIGTERM)
        self._kill_at.setdefault(sim_id, time.monotonic() + KILL_AFTER_S)

    def _clean(self, sim_id: str) -> bool:
        folder = self._folder(sim_id)
        if _locked(folder / "worker.lock"):
            return False
        shutil.rmtree(folder / "run", ignore_errors=True)
        (folder / "simulator.log").unlink(missing_ok=True)
        return True

    def _kill_stubborn(self) -> None:
        for sim_id, deadline in list(self._kill_at.items()):
            folder = self._folder(sim_id)
            if not _locked(folder / "worker.lock"):
                del self._kill_at[sim_id]
            elif time.monotonic() > deadline and (worker := _read_worker(folder)) and (process := worker.alive()):
                process.kill()


def _try_lock(path: Path) -> int | None:
    """The locked file's descriptor, None when a worker holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _locked(path: Path) -> bool:
    if not path.exists():
        return False
    descriptor = _try_lock(path)
    if descriptor is None:
        return True
    os.close(descriptor)
    return False


def _spawn(folder: Path, lock: int, environment: dict[str, str]) -> int:
    # posix_spawn: no object that complains when the server leaves its children behind, which it means to.
    log = os.open(folder / "worker.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    inherited = os.dup(lock)
    os.set_inheritable(inherited, True)
    try:
        return os.posix_spawn(
            sys.executable,
            [sys.executable, "-m", "cascade_worker"],
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, log, 1),
                (os.POSIX_SPAWN_DUP2, log, 2),
            ],
            setsid=True,
        )
    except OSError as error:
        raise LaunchError(f"The worker could not be started: {error.strerror}.") from error
    finally:
        os.close(inherited)
        os.close(log)


def _read_worker(folder: Path) -> WorkerProcess | None:
    try:
        body = json.loads((folder / "worker.json").read_text())
        return WorkerProcess(pid=int(body["pid"]), started=float(body["started"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _wait_for_worker(folder: Path) -> WorkerProcess:
    """A worker that holds the lock writes its file within moments of its start."""
    for _ in range(100):
        if (worker := _read_worker(folder)) is not None:
            return worker
        time.sleep(0.1)
    raise LaunchError("A worker holds the sim's folder but does not say which process it is.")


def _ended_sentence(folder: Path, exit_code: int | None) -> str:
    how = "ended"
    if exit_code is not None:
        how = f"was killed by signal {-exit_code}" if exit_code < 0 else f"ended with code {exit_code}"
    try:
        lines = (folder / "worker.log").read_text("utf-8", "replace").strip().splitlines()[-LOG_EXCERPT_LINES:]
    except OSError:
        lines = []
    said = f" Its last words: {' / '.join(lines)}" if lines else ""
    return f"The worker process {how} without a report.{said}"
