"""Streams of the whole server, resuming, restarts, clients that vanish."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from cascade_server.contract.events import RunChangedEvent, ServerSnapshotEvent, TraceChangedEvent, TraceGoneEvent
from cascade_server.contract.models import Heartbeat
from cascade_server.contract.sse import Decoder, ServerSentEvent
from cascade_server.contract.states import RunState, SimState
from tests.servers import TOKEN, Running, running_server


@contextlib.asynccontextmanager
async def stream(
    server: Running, path: str, last_id: str | None = None
) -> AsyncIterator[AsyncIterator[ServerSentEvent]]:
    """Events with their ids, as they come over the wire."""
    headers = {"Authorization": f"Bearer {TOKEN}"} | ({"Last-Event-ID": last_id} if last_id else {})

    async def read(response: aiohttp.ClientResponse) -> AsyncIterator[ServerSentEvent]:
        decoder = Decoder()
        async for chunk in response.content.iter_any():
            for event in decoder.feed(chunk):
                yield event

    async with aiohttp.ClientSession(headers=headers) as http, http.get(server.url + path) as response:
        assert response.status == 200
        yield read(response)


def kind(event: ServerSentEvent) -> str:
    return event.data.split('"')[3]


async def test_the_server_stream_tells_of_runs_and_traces(tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    async with running_server(tmp_path, traces=str(folder), samples=True) as server:
        while not (await server.client.runs()):
            await asyncio.sleep(0)
        async with contextlib.aclosing(server.client.server_events()) as events:  # type: ignore[type-var]
            first = await anext(events)
            assert isinstance(first, ServerSnapshotEvent)
            assert {trace.id for trace in first.traces} == {"demo-sm70", "sample-layers4-sm80"}

            async def next_of(run_id: str) -> RunChangedEvent:
                async for event in events:
                    if isinstance(event, RunChangedEvent) and event.run.id == run_id:
                        return event
                raise AssertionError("the stream ended")

            run = await server.create()
            assert (await next_of(run.id)).run.state is RunState.ACTIVE
            await server.client.heartbeat(run.sims[0].id, Heartbeat(state=SimState.FAILED, error="x"))
            while (event := await next_of(run.id)).run.state is RunState.ACTIVE:
                pass
            assert event.run.sim_counts == {SimState.FAILED: 1}
            (folder / "mine").mkdir()
            (folder / "mine" / "metadata.json").write_text('{"status": "uploading"}')
            await server.core.registry.scan()
            async for news in events:
                if isinstance(news, TraceChangedEvent):
                    assert news.trace.id == "mine"
                    break
            (folder / "mine" / "metadata.json").unlink()
            await server.core.registry.scan()
            async for news in events:
                if isinstance(news, TraceGoneEvent):
                    assert news.trace_id == "mine"
                    break


async def test_a_client_that_was_cut_off_goes_on_where_it_was(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server:
        run = await server.create()
        (sim,) = run.sims
        path = f"/api/runs/{run.id}/events"
        async with stream(server, path) as events:
            snapshot = await anext(events)
            assert kind(snapshot) == "snapshot"
            await server.client.post_logs(sim.id, 0, ["one"])
            got = [await anext(events), await anext(events)]
            assert [kind(event) for event in got] == ["log", "sim"]
        await server.client.post_logs(sim.id, 1, ["two"])
        async with stream(server, path, got[0].id) as events:
            more = [await anext(events) for _ in range(2)]
            # Of the sim only its newest state, then the line that was missed.
            assert [kind(event) for event in more] == ["log", "sim"]
            assert '"two"' in more[0].data
            assert '"seq":1' in more[0].data
        async with stream(server, path, "0badc0de-1") as events:
            assert kind(await anext(events)) == "snapshot"


async def test_an_id_from_before_a_restart_gets_a_snapshot(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server:
        run = await server.create()
        async with stream(server, f"/api/runs/{run.id}/events") as events:
            old = await anext(events)
    async with running_server(tmp_path) as server, stream(server, f"/api/runs/{run.id}/events", old.id) as events:
        assert kind(await anext(events)) == "snapshot"


async def test_many_clients_that_vanish_leave_nothing_behind(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server:
        run = await server.create()
        (sim,) = run.sims
        before = len(asyncio.all_tasks())
        for _ in range(5):
            async with contextlib.AsyncExitStack() as stack:
                for _ in range(20):
                    events = await stack.enter_async_context(stream(server, f"/api/runs/{run.id}/events"))
                    await anext(events)
        # A stream notices that its client is gone when it next writes.
        seq = 0
        while len(asyncio.all_tasks()) > before + 2:
            seq = (await server.client.post_logs(sim.id, seq, ["line"])).next_seq
            await asyncio.sleep(0)
        with server.core.bus.subscribe(run.id) as place:
            assert place.subscriber is not None


@pytest.mark.parametrize("path", ["/api/events", "/api/runs/{}/events"])
async def test_the_server_stops_at_once_with_streams_open(tmp_path: Path, path: str) -> None:
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(running_server(tmp_path))
        run = await server.create()
        streams = contextlib.AsyncExitStack()
        opened = [await streams.enter_async_context(stream(server, path.format(run.id))) for _ in range(3)]
        for events in opened:
            await anext(events)
        server.core.bus.close()
        for events in opened:
            # What was on its way may still come, then the end.
            assert all([kind(event) != "snapshot" async for event in events])
        await streams.aclose()


async def test_a_client_that_reads_nothing_delays_nobody_and_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cascade_server.routes.events.SEND_TIMEOUT_S", 0.3)
    async with running_server(tmp_path) as server:
        run = await server.create()
        (sim,) = run.sims
        host, port = server.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        request = f"GET /api/runs/{run.id}/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        writer.write(request.encode())
        await writer.drain()
        topic = server.core.bus._topics
        while run.id not in topic or not topic[run.id].subscribers:
            await asyncio.sleep(0)
        lines = ["x" * 100_000 for _ in range(20)]
        async with stream(server, f"/api/runs/{run.id}/events") as events:
            await anext(events)
            seq, seen = 0, 0
            while len(topic[run.id].subscribers) > 1:
                seq = (await server.client.post_logs(sim.id, seq, lines)).next_seq
                while seen < seq:
                    event = await anext(events)
                    if kind(event) == "log":
                        seen += event.data.count("x" * 100_000)
        writer.close()
