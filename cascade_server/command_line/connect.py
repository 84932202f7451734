"""Finds the server and its token, runs a command's work with a client, and turns its end into an exit code."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import typer
from aiohttp import ClientConnectorError
from pydantic import ValidationError
from yarl import URL

from cascade_server import datadir
from cascade_server.contract.client import ApiError, Unauthorized, Unreachable
from cascade_server.settings import LOOPBACK_HOSTS, Settings

from .client import Client
from .errors import FAILED, INTERRUPTED, PIPE_CLOSED, UNREACHABLE, USAGE, Stop
from .text import harmless

DEFAULT_URL = "http://127.0.0.1:8000"

Work = Callable[[Client], Coroutine[Any, Any, int]]
"""What a command does; gives its exit code."""


@dataclass(frozen=True)
class Where:
    """A server and the token it wants."""

    url: str
    token: str | None = field(repr=False)


class _Here:
    """What this machine's data folder says of a server here; read only when asked for."""

    @cached_property
    def settings(self) -> Settings:
        try:
            return Settings()
        except ValidationError as error:
            # Never the input: it may be the token.
            wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_url=False))
            raise Stop(USAGE, f"These settings can't be used: {wrong}.") from error
        except (ValueError, OSError) as error:
            raise Stop(USAGE, f"The settings file can't be read: {error}.") from error

    @cached_property
    def url(self) -> str | None:
        folder = self.settings.data_dir
        # Looking must not make the folder.
        running = datadir.running_server(folder) if (folder / "server.json").is_file() else None
        return running[0] if running else None

    @property
    def token(self) -> str | None:
        if self.settings.token is not None:
            return self.settings.token.get_secret_value()
        try:
            return datadir.token_path(self.settings.data_dir).read_text("utf-8").strip() or None
        except (OSError, UnicodeDecodeError):
            return None


def find(url: str | None, token_file: Path | None) -> Where:
    """Find the server and its token. Raises Stop.

    The token of this machine's data folder goes only to this machine: a server elsewhere is not shown it.
    """
    here = _Here()
    place = _checked_url(url) if url else here.url or DEFAULT_URL
    token = os.environ.get("CASCADE_TOKEN", "").strip() or None
    if token is None and token_file is not None:
        try:
            token = token_file.expanduser().read_text("utf-8").strip() or None
        except (OSError, UnicodeDecodeError) as error:
            raise Stop(USAGE, f"The token file can't be read: {error}.") from error
    elif token is None and (_is_loopback(place) or place == here.url):
        token = here.token
    if token is not None and not (token.isascii() and token.isprintable()):
        raise Stop(USAGE, "The token holds characters that no token has; is it the right file?")
    return Where(place, token)


def _checked_url(url: str) -> str:
    try:
        parsed = URL(url)
        usable = parsed.scheme in ("http", "https") and bool(parsed.host) and not parsed.query_string
    except ValueError:
        usable = False
    if not usable:
        raise Stop(USAGE, f"{url!r} is no URL of a server; it looks like http://host:8000.")
    return url.rstrip("/")


def _is_loopback(url: str) -> bool:
    host = URL(url).host or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in LOOPBACK_HOSTS


def run(url: str | None, token_file: Path | None, work: Work) -> None:
    """Do a command's work and leave with its exit code."""
    with exit_codes():
        where = find(url, token_file)
        code = asyncio.run(_with_client(where, work))
        sys.stdout.flush()
        raise typer.Exit(code)


async def _with_client(where: Where, work: Work) -> int:
    async with Client(where.url, where.token) as client:
        return await work(client)


@contextlib.contextmanager
def exit_codes() -> Any:
    """Say what went wrong, on stderr and in one line, and leave with the code for it."""
    _never_fail_on_a_character()
    try:
        yield
    except Stop as error:
        _leave(error.code, str(error))
    except Unreachable as error:
        _leave(UNREACHABLE, _unreachable(error))
    except Unauthorized as error:
        _leave(FAILED, f"{error.detail} (Cascade's client takes it from CASCADE_TOKEN or --token-file.)")
    except ApiError as error:
        _leave(FAILED, error.detail)
    except BrokenPipeError:
        _forget_output()
        raise typer.Exit(PIPE_CLOSED) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except OSError as error:
        _forget_output()
        _leave(FAILED, f"{error}.")


def _unreachable(error: Unreachable) -> str:
    cause = error.__cause__
    if isinstance(cause, ClientConnectorError):
        number = cause.os_error.errno
        why = os.strerror(number) if number else str(cause.os_error)
        return f"No server answers on {cause.host}:{cause.port} ({why}): is it running, and is --url right?"
    return f"{error}."


def _leave(code: int, text: str) -> None:
    with contextlib.suppress(OSError):
        typer.echo(f"cascade: {harmless(text)}", err=True)
    raise typer.Exit(code) from None


def _never_fail_on_a_character() -> None:
    """Let a terminal of another encoding show `?` for what it lacks."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]


def _forget_output() -> None:
    """Drop what is still to be written: else the interpreter tries again when it ends, and complains."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
