"""The typed client that the terminal app, the worker, the command line and the tests use.

Errors:

    CascadeError
    ├── Unreachable        no answer: refused, cut off, too late
    └── ApiError           the server answered with an error; has `status` and `detail`
        ├── Unauthorized   401
        ├── NotFound       404
        ├── Conflict       409; `next_seq` for a log gap
        └── Invalid        422

Nothing is retried here: whether a call may be repeated is the caller's to know.
"""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Self, TypeVar

import aiohttp
from pydantic import BaseModel, TypeAdapter, ValidationError
from yarl import URL

from . import analysis as a
from . import models as m
from .endpoints import ENDPOINTS, Endpoint
from .events import (
    RUN_EVENT,
    SERVER_EVENT,
    KernelEvent,
    LogEvent,
    RunChangedEvent,
    ServerSnapshotEvent,
    SimEvent,
    SnapshotEvent,
    TraceChangedEvent,
    TraceGoneEvent,
)
from .sse import Decoder

T = TypeVar("T")

Body = str | bytes | AsyncIterator[bytes]
"""JSON text, or the bytes of a file."""

KEEPALIVE_S = 15.0
"""The server writes to a silent event stream at least this often."""

_LONG = aiohttp.ClientTimeout(total=None, sock_connect=5.0, sock_read=60.0)
"""For bodies of any length: only silence ends them."""

FIRST_LINE_HEADER = "X-Cascade-First-Line"


class CascadeError(Exception):
    """Base of all errors of this module."""


class Unreachable(CascadeError):
    """The server gave no whole answer."""


class ApiError(CascadeError):
    """The server answered with an error status."""

    def __init__(self, status: int, detail: str, next_seq: int | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.next_seq = next_seq


class Unauthorized(ApiError):
    """401: the token is missing or wrong."""


class NotFound(ApiError):
    """404."""


class Conflict(ApiError):
    """409; `next_seq` is set when log lines are missing."""


class Invalid(ApiError):
    """422."""


_BY_STATUS: dict[int, type[ApiError]] = {401: Unauthorized, 404: NotFound, 409: Conflict, 422: Invalid}


class LogTail(BaseModel):
    """The end of a log: `lines[0]` is line `first_line` (0-based)."""

    first_line: int
    lines: list[str]


class CascadeClient:
    """Calls a Cascade server. Use as `async with CascadeClient(url, token) as client`."""

    def __init__(self, url: str, token: str | None = None, *, timeout_s: float = 30.0) -> None:
        self.url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=min(5.0, timeout_s))
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(headers=self._headers)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; may be called again."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    # -- calls, one a route ------------------------------------------------------------------

    async def health(self) -> m.Health:
        """Ask whether the server serves; needs no token."""
        return await self._call("health", m.Health)

    async def traces(self) -> list[m.TraceSummary]:
        """All traces, newest first."""
        return await self._call("traces", list[m.TraceSummary])

    async def trace(self, trace_id: str) -> m.TraceDetail:
        """One trace with its kernels."""
        return await self._call("trace", m.TraceDetail, trace_id=trace_id)

    async def gpu_configs(self) -> list[m.GpuConfig]:
        """All GPU configs by name."""
        return await self._call("gpu_configs", list[m.GpuConfig])

    async def create_run(self, body: m.RunCreate) -> m.RunDetail:
        """Launch sims. After Unreachable look for the run before trying again: it may have been made."""
        return await self._call("create_run", m.RunDetail, body=body.model_dump_json())

    async def runs(self) -> list[m.RunSummary]:
        """All runs, newest first."""
        return await self._call("runs", list[m.RunSummary])

    async def run(self, run_id: str) -> m.RunDetail:
        """One run with its sims."""
        return await self._call("run", m.RunDetail, run_id=run_id)

    async def cancel_run(self, run_id: str) -> m.RunDetail:
        """Cancel what is unfinished; repeatable."""
        return await self._call("cancel_run", m.RunDetail, run_id=run_id)

    async def run_kernels(self, run_id: str) -> list[m.KernelStat]:
        """Every finished kernel, without stats."""
        return await self._call("run_kernels", list[m.KernelStat], run_id=run_id)

    async def run_comparison(self, run_id: str) -> m.Comparison:
        """The run's kernels side by side over its configs."""
        return await self._call("run_comparison", m.Comparison, run_id=run_id)

    async def run_accuracy(self, run_id: str) -> a.RunAccuracy:
        """The run against real hardware."""
        return await self._call("run_accuracy", a.RunAccuracy, run_id=run_id)

    async def sim_kernel(self, sim_id: str, kernel_index: int) -> a.KernelDetail:
        """One kernel with all its counters."""
        return await self._call("sim_kernel", a.KernelDetail, sim_id=sim_id, kernel_index=str(kernel_index))

    async def heartbeat(self, sim_id: str, beat: m.Heartbeat) -> m.HeartbeatReply:
        """Report a sim's state; repeatable."""
        return await self._call("heartbeat", m.HeartbeatReply, body=beat.model_dump_json(), sim_id=sim_id)

    async def post_logs(self, sim_id: str, seq: int, lines: Sequence[str], *, unterminated: bool = False) -> m.LogReply:
        """Send log lines; repeatable. Raises Conflict with `next_seq` when lines before `seq` are missing."""
        # Not through the model: the lines are the bulk of all traffic, and may hold lone surrogates.
        body: dict[str, Any] = {"seq": seq, "lines": lines}
        if unterminated:
            body["unterminated"] = True
        return await self._call("post_logs", m.LogReply, body=json.dumps(body), sim_id=sim_id)

    async def sim_log_tail(self, sim_id: str, lines: int) -> LogTail:
        """The last `lines` lines of a log, cleaned for display."""
        async with self._request(ENDPOINTS["sim_log"], {"sim_id": sim_id}, params={"tail": lines}) as response:
            text = (await response.read()).decode("utf-8", "replace")
            first = int(response.headers[FIRST_LINE_HEADER])
        return LogTail(first_line=first, lines=text.removesuffix("\n").split("\n") if text else [])

    def sim_log(self, sim_id: str) -> AsyncIterator[bytes]:
        """The whole log as it was printed, in chunks of any size."""
        return self._download("sim_log", sim_id=sim_id)

    def run_results(self, run_id: str) -> AsyncIterator[bytes]:
        """The JSON of a RunResults, in chunks: it may be hundreds of megabytes."""
        return self._download("run_results", run_id=run_id)

    def sim_results(self, sim_id: str) -> AsyncIterator[bytes]:
        """The JSON of a SimResults, in chunks."""
        return self._download("sim_results", sim_id=sim_id)

    def run_perfetto(self, run_id: str) -> AsyncIterator[bytes]:
        """The run as a Chrome trace, in chunks."""
        return self._download("run_perfetto", run_id=run_id)

    async def run_files(self, run_id: str) -> list[m.RunFile]:
        """The output files of all sims of a run."""
        return await self._call("run_files", list[m.RunFile], run_id=run_id)

    async def sim_files(self, sim_id: str) -> list[m.SimFile]:
        """A sim's output files."""
        return await self._call("sim_files", list[m.SimFile], sim_id=sim_id)

    def sim_file(self, sim_id: str, name: str) -> AsyncIterator[bytes]:
        """One output file, in chunks."""
        return self._download("sim_file", sim_id=sim_id, name=name)

    async def put_file(self, sim_id: str, name: str, data: AsyncIterator[bytes] | bytes) -> m.SimFile:
        """Store an output file; repeatable, the last one whole counts."""
        return await self._call("put_file", m.SimFile, body=data, timeout=_LONG, sim_id=sim_id, name=name)

    async def step_timelines(self, run_id: str) -> list[m.SimStepTimeline]:
        """The predicted step timelines of a run."""
        return await self._call("run_step_timelines", list[m.SimStepTimeline], run_id=run_id)

    async def post_step_timeline(self, sim_id: str, body: m.StepTimelineBody) -> None:
        """Store a sim's step timeline; repeatable."""
        async with self._request(ENDPOINTS["post_step_timeline"], {"sim_id": sim_id}, body=body.model_dump_json()):
            pass

    async def run_events(self, run_id: str) -> AsyncIterator[SnapshotEvent | SimEvent | LogEvent | KernelEvent]:
        """Follow a run: a snapshot, then its changes, until the connection ends.

        Ends with Unreachable when the server goes away or is silent for three keepalives; call again to go
        on, and take the snapshot for all that was missed.
        """
        async for event in self._events("run_events", RUN_EVENT, run_id=run_id):
            yield event

    async def server_events(
        self,
    ) -> AsyncIterator[ServerSnapshotEvent | RunChangedEvent | TraceChangedEvent | TraceGoneEvent]:
        """Follow all runs and traces of the server, in the same way."""
        async for event in self._events("server_events", SERVER_EVENT):
            yield event

    # -- how ---------------------------------------------------------------------------------

    async def _events(self, name: str, kind: TypeAdapter[T], /, **params: str) -> AsyncIterator[T]:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5.0, sock_read=3 * KEEPALIVE_S)
        decoder = Decoder()
        async with self._request(ENDPOINTS[name], params, timeout=timeout) as response:
            async for chunk in response.content.iter_any():
                for event in decoder.feed(chunk):
                    try:
                        yield kind.validate_json(event.data)
                    except ValidationError as error:
                        raise Unreachable(f"the server sent an event that can't be read: {error}") from error
        raise Unreachable("the server closed the event stream")

    async def _download(self, name: str, /, **params: str) -> AsyncIterator[bytes]:
        async with self._request(ENDPOINTS[name], params, timeout=_LONG) as response:
            async for chunk in response.content.iter_any():
                yield chunk

    async def _call(
        self,
        name: str,
        kind: type[T],
        /,
        *,
        body: Body | None = None,
        timeout: aiohttp.ClientTimeout | None = None,
        **params: str,
    ) -> T:
        async with self._request(ENDPOINTS[name], params, body=body, timeout=timeout) as response:
            raw = await response.read()
        try:
            return TypeAdapter(kind).validate_json(raw)
        except ValidationError as error:
            message = f"{self.url} answered {name} with something else: is it a Cascade server?"
            raise Unreachable(message) from error

    def _request(
        self,
        endpoint: Endpoint,
        path_params: dict[str, str],
        *,
        params: dict[str, int] | None = None,
        body: Body | None = None,
        timeout: aiohttp.ClientTimeout | None = None,
    ) -> _Call:
        if self._session is None:
            raise RuntimeError("use the client as an async context manager")
        request = self._session.request(
            endpoint.method,
            # quoted already; yarl must not decode it
            URL(self.url + endpoint.url(**path_params), encoded=True),
            params=params,
            data=io.BytesIO(body.encode() if isinstance(body, str) else body)
            if isinstance(body, str | bytes)
            else body,
            headers={"Content-Type": "application/json"} if isinstance(body, str) else None,
            timeout=timeout or self._timeout,
            allow_redirects=False,
        )
        return _Call(self.url, request, endpoint.status)


class _Call:
    """A request, within which aiohttp's errors become ours.

    No generator: event streams are left half-read, and at the end of a loop Python closes generators in any order.
    """

    def __init__(self, url: str, request: AbstractAsyncContextManager[aiohttp.ClientResponse], status: int) -> None:
        self._url = url
        self._request = request
        self._status = status

    async def __aenter__(self) -> aiohttp.ClientResponse:
        try:
            response = await self._request.__aenter__()
            if response.status == self._status:
                return response
            error = _api_error(response.status, await response.text(errors="replace"))
        except _NO_ANSWER as failure:
            raise self._unreachable(failure) from failure
        await self._request.__aexit__(None, None, None)
        raise error

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._request.__aexit__(kind, error, trace)
        if isinstance(error, _NO_ANSWER):
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> Unreachable:
        return Unreachable(f"can't reach {self._url}: {str(error) or 'no answer in time'}")


_NO_ANSWER = (aiohttp.ClientError, TimeoutError, OSError)


def _api_error(status: int, text: str) -> ApiError:
    next_seq = None
    try:
        body = json.loads(text)
        detail = body["detail"]
        if not isinstance(detail, str):
            detail = "; ".join(f"{'.'.join(map(str, e.get('loc', ())))}: {e.get('msg')}" for e in detail)
        next_seq = body.get("next_seq")
    except (ValueError, KeyError, TypeError, AttributeError):
        detail = f"the server answered {status} without a reason"
    return _BY_STATUS.get(status, ApiError)(status, detail, next_seq)
