"""The contract's client, and what only the command line needs: answers as they came, logs from a line on, ids."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import aiohttp
from pydantic import TypeAdapter, ValidationError

from cascade_server.contract import models as m
from cascade_server.contract.client import FIRST_LINE_HEADER, CascadeClient, Unreachable
from cascade_server.contract.endpoints import ENDPOINTS

from .errors import FAILED, Stop
from .text import moment

T = TypeVar("T")

_RUN_ID = re.compile(r"run-[0-9a-f]{12}")
_SIM_ID = re.compile(r"sim-[0-9a-f]{12}")
_TRACE_ID = re.compile(m.TRACE_ID)
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    """An answer, and its JSON as the server wrote it."""

    value: T
    raw: bytes


class Client(CascadeClient):
    """A Cascade client that keeps the bytes it got: `--json` passes them on unchanged."""

    async def get(self, name: str, kind: type[T], /, *, body: str | None = None, **params: str) -> Reply[T]:
        """Call the route `name`. Raises as every call of the client does."""
        async with self._request(ENDPOINTS[name], params, body=body) as response:
            raw = await response.read()
        try:
            return Reply(TypeAdapter(kind).validate_json(raw), raw)
        except ValidationError as error:
            raise Unreachable(f"{self.url} answered {name} with something else: is it a Cascade server?") from error

    async def log_from(self, sim_id: str, tail: int | None) -> AsyncIterator[tuple[int, bytes]]:
        """Read a log, or its last `tail` lines, in chunks, each with the number of the first line that was sent."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5.0, sock_read=60.0)
        params = None if tail is None else {"tail": tail}
        async with self._request(ENDPOINTS["sim_log"], {"sim_id": sim_id}, params=params, timeout=timeout) as response:
            first = int(response.headers[FIRST_LINE_HEADER])
            # Even an empty log tells where it begins.
            yield first, b""
            async for chunk in response.content.iter_any():
                yield first, chunk

    async def run_id(self, given: str) -> str:
        """The whole id of the run that was named: by its id, a beginning of it, or `last`. Raises Stop."""
        if _RUN_ID.fullmatch(given):
            return given
        runs = await self.runs()
        if given == "last":
            if not runs:
                raise Stop(FAILED, "There are no runs yet.")
            return runs[0].id
        beginning = given if given.startswith("run-") else f"run-{given}"
        found = [run for run in runs if given and run.id.startswith(beginning)]
        if len(found) == 1:
            return found[0].id
        if not found:
            raise Stop(FAILED, f"There is no run {given!r}; `cascade runs` lists them.")
        named = ", ".join(f"{run.id} ({run.trace_id}, {moment(run.created_at)})" for run in found[:_MOST_NAMED])
        more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
        raise Stop(FAILED, f"{given!r} is the beginning of {len(found)} runs: {named}{more}.")


def checked_trace_id(given: str) -> str:
    """The id, if it can be one: any other could name another route. Raises Stop."""
    if not _TRACE_ID.fullmatch(given):
        raise Stop(FAILED, f"There is no trace {given!r}; `cascade traces` lists them.")
    return given


def checked_sim_id(given: str) -> str:
    """The same for a sim."""
    if not _SIM_ID.fullmatch(given):
        raise Stop(FAILED, f"There is no sim {given!r}: a sim's id is whole, as `cascade run show` lists it.")
    return given
