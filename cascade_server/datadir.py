"""The server's data folder: who may use it, its token and its secret.

server.lock    held (flock) while a server runs on the folder
server.json    url and pid of the server that runs, for those who look for it
token          the main token, when the server made it (0600)
secret         what the sims' tokens are derived from (0600)
cascade.db     the database
traces/        the default trace folder
sims/          a folder for each sim
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

from .errors import StartError

LOCK_TRIES = 10
LOCK_PAUSE_S = 0.05


@contextlib.contextmanager
def locked(data_dir: Path) -> Iterator[None]:
    """Make the folder if need be and hold it for one server. Raises StartError."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(data_dir / "server.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StartError(f"The data folder {data_dir} can't be used: {error.strerror}.") from error
    try:
        if not _take_lock(descriptor):
            raise StartError(f"Another server runs on {data_dir}; stop it, or set CASCADE_DATA_DIR to another folder.")
        yield
    finally:
        os.close(descriptor)


def _take_lock(descriptor: int) -> bool:
    # Who looks for a running server holds the lock for a moment: try again for as long as that may take.
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(LOCK_PAUSE_S)
        else:
            return True
    return False


def token_path(data_dir: Path) -> Path:
    """Where a token that the server made lies."""
    return data_dir / "token"


def kept_secret(path: Path) -> str:
    """The secret kept in a file, made at the first call; mode 0600. Raises StartError."""
    try:
        try:
            text = path.read_text().strip()
            if text:
                path.chmod(0o600)
                return text
        except FileNotFoundError:
            pass
        made = secrets.token_urlsafe(32)
        fresh = path.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(made + "\n")
        fresh.rename(path)
    except (OSError, UnicodeDecodeError) as error:
        raise StartError(f"{path} can't be used: {error}.") from error
    return made


def write_server_file(data_dir: Path, url: str) -> None:
    """Say where the server is."""
    fresh = data_dir / "server.json.new"
    fresh.write_text(json.dumps({"url": url, "pid": os.getpid()}))
    fresh.rename(data_dir / "server.json")


def _is_locked(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def running_server(data_dir: Path) -> tuple[str, int] | None:
    """URL and pid of the server that runs on the folder now, None when there is none."""
    if not _is_locked(data_dir / "server.lock"):
        return None
    try:
        body = json.loads((data_dir / "server.json").read_text())
        return str(body["url"]), int(body["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
