"""The routes of this release against a real server, success and every error."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from cascade_server.contract.client import (
    ApiError,
    CascadeClient,
    Conflict,
    Invalid,
    NotFound,
    Unauthorized,
    Unreachable,
)
from cascade_server.contract.endpoints import ENDPOINTS, Auth, Endpoint
from cascade_server.contract.events import KernelEvent, LogEvent, SimEvent, SnapshotEvent
from cascade_server.contract.models import Heartbeat, RunCreate, RunEntry, RunSummary
from cascade_server.contract.states import RunState, SimState, TraceState
from tests.recordings import TRUTH, recording_bytes, recording_lines
from tests.servers import TOKEN, Running, running_server


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_server(tmp_path) as running:
        yield running


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


def fill(endpoint: Endpoint) -> str:
    names = [word.split("}")[0] for word in endpoint.path.split("{")[1:]]
    return endpoint.url(**dict.fromkeys(names, "nope"))


@pytest.mark.parametrize("endpoint", ENDPOINTS.values(), ids=lambda e: e.name)
async def test_every_route_but_health_wants_the_token(
    server: Running, http: aiohttp.ClientSession, endpoint: Endpoint
) -> None:
    url = server.url + fill(endpoint)
    wrong = [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Bearer {TOKEN[:-1]}"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": TOKEN},
        {"Authorization": "Bearer " + "x" * 5000},
        {"Authorization": "Bearer \u00e9"},
    ]
    for headers in wrong:
        async with http.request(endpoint.method, url, headers=headers) as response:
            if endpoint.auth is Auth.NONE:
                assert response.status == 200
            else:
                assert response.status == 401
                assert (await response.json()).keys() == {"detail"}
                assert response.headers["WWW-Authenticate"] == "Bearer"


async def test_unknown_paths_and_wrong_methods_are_json(server: Running, http: aiohttp.ClientSession) -> None:
    async with http.get(server.url + "/api/nothing") as response:
        assert (response.status, await response.json()) == (404, {"detail": "Not Found"})
    async with http.delete(server.url + "/api/runs") as response:
        assert response.status == 405
        assert (await response.json())["detail"] == "Method Not Allowed"
        assert response.headers["Allow"] == "GET,POST"


async def test_health_needs_no_token(server: Running) -> None:
    async with CascadeClient(server.url) as anyone:
        health = await anyone.health()
    assert (health.ok, health.auth, health.workspace, health.replay) == (True, True, None, True)
    async with CascadeClient(server.url) as anyone:
        with pytest.raises(Unauthorized, match="token is needed"):
            await anyone.traces()


async def test_no_auth_turns_the_check_off(tmp_path: Path) -> None:
    async with running_server(tmp_path, no_auth=True, workspace="lab") as server, CascadeClient(server.url) as anyone:
        assert await anyone.runs() is not None
        health = await anyone.health()
        assert (health.auth, health.workspace) == (False, "lab")


async def test_the_bundled_traces_are_marked_as_what_they_are(server: Running) -> None:
    traces = {trace.id: trace for trace in await server.client.traces()}
    demo, sample = traces["demo-sm70"], traces["sample-layers4-sm80"]
    assert (demo.state, demo.demo, demo.sample, demo.kernel_count) == (TraceState.READY, True, False, 12)
    assert (sample.state, sample.demo, sample.sample, sample.kernel_count) == (TraceState.READY, False, True, 24)
    detail = await server.client.trace("demo-sm70")
    assert [k.kernel_id for k in detail.kernels] == list(range(1, 13))
    assert detail.kernels[4].name == "_Z8mlp_gemmILi0EEvPKfS1_Pfi"
    assert (detail.kernels[4].grid, detail.kernels[4].block, detail.kernels[4].instructions) == (
        (64, 1, 1),
        (256, 1, 1),
        47104,
    )
    with pytest.raises(NotFound, match="nowhere"):
        await server.client.trace("nowhere")


async def test_samples_can_be_hidden(tmp_path: Path) -> None:
    async with running_server(tmp_path, samples=False) as server:
        assert await server.client.traces() == []
        assert await server.client.runs() == []
        with pytest.raises(NotFound):
            await server.create()


async def test_gpu_configs_are_sorted(server: Running) -> None:
    configs = await server.client.gpu_configs()
    assert [c.name for c in configs] == sorted(c.name for c in configs)
    assert {c.name: (c.arch, c.core_clock_mhz) for c in configs}["SM7_QV100"] == ("sm_70", 1132.0)


async def test_a_run_is_made_pending(server: Running) -> None:
    run = await server.create("SM7_TITANV", "SM7_QV100", count=2)
    assert (run.state, run.sim_counts, run.replay) == (RunState.ACTIVE, {SimState.PENDING: 4}, True)
    assert [(s.gpu_config, s.replica) for s in run.sims] == [
        ("SM7_QV100", 0),
        ("SM7_QV100", 1),
        ("SM7_TITANV", 0),
        ("SM7_TITANV", 1),
    ]
    assert all(s.kernels_total == 12 and not s.stand_in for s in run.sims)
    assert run.notice is not None
    assert "recorded Accel-Sim results of this very trace" in run.notice
    assert await server.client.run(run.id) == run
    assert [run for run in await server.client.runs() if not run.sample] == [
        RunSummary.model_validate(run.model_dump())
    ]


async def test_a_stand_in_says_that_its_numbers_do_not_describe_the_trace(tmp_path: Path) -> None:
    folder = tmp_path / "traces" / "mine" / "traces"
    folder.mkdir(parents=True)
    (folder / "kernel-1.traceg").write_text("-kernel name = k\n")
    (folder / "kernelslist.g").write_text("kernel-1.traceg\n")
    (folder.parent / "metadata.json").write_text(json.dumps({"status": "complete", "trace_gpu_arch": "sm_80"}))
    async with running_server(tmp_path, traces=str(tmp_path / "traces")) as server:
        run = await server.create("SM80_A100", trace="mine")
    assert run.notice is not None
    assert "do NOT describe this trace" in run.notice
    assert [s.stand_in for s in run.sims] == [True]


async def test_what_cannot_be_run_is_refused_with_a_sentence(server: Running) -> None:
    with pytest.raises(NotFound, match="no trace 'nowhere'"):
        await server.create(trace="nowhere")
    with pytest.raises(Conflict, match="sample without instruction traces"):
        await server.create("SM80_A100", trace="sample-layers4-sm80")
    with pytest.raises(Invalid, match="no GPU config 'SM7_NOPE'"):
        await server.create("SM7_NOPE")
    with pytest.raises(Invalid, match=r"sm_80.*demo-sm70.*sm_70"):
        await server.create("SM80_A100")
    assert [run for run in await server.client.runs() if not run.sample] == []


BAD_BODIES: list[tuple[bytes, list[Any]]] = [
    (b"", ["body"]),
    (b"{", ["body"]),
    (b"\xff\xfe", ["body"]),
    (b"[" * 100_000, ["body"]),
    (b"null", ["body"]),
    (b"[]", ["body"]),
    (b'"x"', ["body"]),
    (b"{}", ["body", "trace_id"]),
    (b'{"trace_id": 1, "entries": []}', ["body", "trace_id"]),
    (b'{"trace_id": "demo-sm70", "entries": []}', ["body", "entries"]),
    (b'{"trace_id": "\\ud800", "entries": [{"gpu_config": "x", "count": 1}]}', ["body"]),
    *(
        (
            b'{"trace_id": "demo-sm70", "entries": [{"gpu_config": "SM7_QV100", "count": ' + count + b"}]}",
            ["body", "entries", 0, "count"],
        )
        for count in (b"0", b"65", b"1.5", b'"1"', b"true", b"null", b"1e400", b"9" * 4000)
    ),
    (
        b'{"trace_id": "demo-sm70", "entries": [{"gpu_config": "SM7_QV100", "count": ' + b"9" * 9000 + b"}]}",
        ["body"],
    ),
]


@pytest.mark.parametrize(("body", "loc"), BAD_BODIES, ids=lambda value: repr(value)[:40])
async def test_a_bad_body_is_422_with_its_place(
    server: Running, http: aiohttp.ClientSession, body: bytes, loc: list[Any]
) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    async with http.post(server.url + "/api/runs", data=body, headers=headers) as response:
        assert response.status == 422
        detail = (await response.json())["detail"]
    assert detail[0]["loc"] == loc
    assert detail[0]["msg"]


async def test_a_whole_recording_gives_the_right_kernels_and_log(server: Running) -> None:
    run = await server.create("SM7_QV100")
    (sim,) = run.sims
    await server.finish(sim, "ok-demo-qv100")
    (sim,) = (await server.client.run(run.id)).sims
    assert (sim.state, sim.kernels_done, sim.exit_code) == (SimState.SUCCEEDED, 12, 0)
    kernels = await server.client.run_kernels(run.id)
    truth = TRUTH["ok-demo-qv100"]["kernels"]
    assert [(k.kernel_name, k.kernel_launch_uid, k.gpu_sim_cycle, k.gpu_sim_insn, k.gpu_ipc) for k in kernels] == [
        (t["kernel_name"], t["kernel_launch_uid"], t["gpu_sim_cycle"], t["gpu_sim_insn"], t["gpu_ipc"]) for t in truth
    ]
    assert [k.sim_time_ns for k in kernels] == [pytest.approx(t["gpu_sim_cycle"] / 1132 * 1000) for t in truth]
    assert sim.latest.gpu_tot_sim_cycle == truth[-1]["gpu_tot_sim_cycle"]
    assert all(k.stats == {} for k in kernels)
    assert sim.log_tail == recording_lines("ok-demo-qv100")[-20:]
    assert b"".join([chunk async for chunk in server.client.sim_log(sim.id)]) == recording_bytes("ok-demo-qv100")
    tail = await server.client.sim_log_tail(sim.id, 5)
    assert (tail.first_line, tail.lines) == (sim.log_lines - 5, recording_lines("ok-demo-qv100")[-5:])


async def test_log_chunks_arrive_exactly_once(server: Running) -> None:
    (sim,) = (await server.create()).sims
    lines = [f"line {i}" for i in range(10)]
    assert (await server.client.post_logs(sim.id, 0, lines[:4])).next_seq == 4
    assert (await server.client.post_logs(sim.id, 0, lines[:4])).next_seq == 4
    assert (await server.client.post_logs(sim.id, 2, lines[2:7])).next_seq == 7
    assert (await server.client.post_logs(sim.id, 1, [])).next_seq == 7
    with pytest.raises(Conflict) as refused:
        await server.client.post_logs(sim.id, 8, lines[8:])
    assert refused.value.next_seq == 7
    assert (await server.client.post_logs(sim.id, 7, lines[7:], unterminated=True)).next_seq == 10
    assert b"".join([c async for c in server.client.sim_log(sim.id)]) == "\n".join(lines).encode()
    assert (await server.client.post_logs(sim.id, 9, ["line 9"])).next_seq == 10
    with pytest.raises(Conflict, match="ended"):
        await server.client.post_logs(sim.id, 10, ["more"])


async def test_any_bytes_are_stored_exactly_and_shown_safely(server: Running) -> None:
    (sim,) = (await server.create()).sims
    raw = [bytes([b]) for b in range(256) if b != 10] + [b"\xed\xa0\x80", "é\u2028\x85".encode(), b"x" * 100_000]
    lines = [line.decode("utf-8", "surrogateescape") for line in raw]
    await server.client.post_logs(sim.id, 0, lines)
    assert b"".join([c async for c in server.client.sim_log(sim.id)]) == b"\n".join(raw) + b"\n"
    (again,) = (await server.client.run(sim.run_id)).sims
    assert again.log_tail[-1] == "x" * 100_000
    assert "\ufffd" in again.log_tail[0]


@pytest.mark.parametrize(
    "body",
    [
        '{"seq": -1, "lines": []}',
        '{"seq": 0, "lines": ["a\\nb"]}',
        '{"seq": 0, "lines": [1]}',
        '{"seq": 0, "lines": "abc"}',
        '{"seq": "0", "lines": []}',
        '{"seq": 99999999999999999999, "lines": []}',
        '{"lines": []}',
    ],
)
async def test_bad_chunks_change_nothing(server: Running, http: aiohttp.ClientSession, body: str) -> None:
    (sim,) = (await server.create()).sims
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with http.post(f"{server.url}/api/sims/{sim.id}/logs", data=body, headers=headers) as response:
        assert response.status == 422
    assert (await server.client.run(sim.run_id)).sims[0].log_lines == 0


async def test_sims_tokens_open_their_own_simulator_routes_until_the_end(server: Running) -> None:
    run = await server.create(count=2)
    mine, other = run.sims
    running = Heartbeat(state=SimState.RUNNING)
    async with server.sim_client(mine.id) as worker:
        assert not (await worker.heartbeat(mine.id, running)).cancel
        await worker.post_logs(mine.id, 0, ["hello"])
        for refused in (
            worker.heartbeat(other.id, running),
            worker.post_logs(other.id, 0, ["hello"]),
            worker.runs(),
            worker.run(run.id),
            worker.sim_log_tail(mine.id, 1),
            worker.heartbeat("sim-ffffffffffff", running),
        ):
            with pytest.raises(Unauthorized):
                await refused
        await worker.heartbeat(mine.id, Heartbeat(state=SimState.SUCCEEDED, exit_code=0))
        with pytest.raises(Unauthorized):
            await worker.post_logs(mine.id, 1, ["late"])
        # Its last word may be repeated, since the answer may have been lost; it changes nothing.
        assert not (await worker.heartbeat(mine.id, Heartbeat(state=SimState.FAILED))).cancel
    async with server.sim_client(mine.id, attempt=2) as impostor:
        with pytest.raises(Unauthorized):
            await impostor.heartbeat(mine.id, running)
    assert (await server.client.run(run.id)).sims[0].state is SimState.SUCCEEDED


async def test_a_running_heartbeat_starts_a_sim_and_clears_its_error(server: Running) -> None:
    (sim,) = (await server.create()).sims
    server.clock.advance(5)
    await server.client.heartbeat(sim.id, Heartbeat(state=SimState.RUNNING, error="transient"))
    (sim,) = (await server.client.run(sim.run_id)).sims
    assert (sim.state, sim.error) == (SimState.RUNNING, None)
    started = sim.started_at
    server.clock.advance(5)
    await server.client.heartbeat(sim.id, Heartbeat(state=SimState.RUNNING))
    (sim,) = (await server.client.run(sim.run_id)).sims
    assert sim.started_at == started
    assert sim.last_heartbeat_at == server.clock.now
    await server.client.heartbeat(sim.id, Heartbeat(state=SimState.FAILED, error="a deadlock", exit_code=134))
    await server.client.heartbeat(sim.id, Heartbeat(state=SimState.RUNNING))
    (sim,) = (await server.client.run(sim.run_id)).sims
    assert (sim.state, sim.error, sim.exit_code) == (SimState.FAILED, "a deadlock", 134)
    assert sim.finished_at == server.clock.now


async def test_cancel_stops_what_is_unfinished_and_is_repeatable(server: Running) -> None:
    run = await server.create("SM7_QV100", "SM7_GV100", count=2)
    done, running = run.sims[:2]
    await server.finish(done, "ok-demo-gv100")
    await server.client.heartbeat(running.id, Heartbeat(state=SimState.RUNNING))
    for _ in range(2):
        cancelled = await server.client.cancel_run(run.id)
        assert cancelled.sim_counts == {SimState.SUCCEEDED: 1, SimState.CANCELLED: 3}
        assert cancelled.state is RunState.PARTIAL
    async with server.sim_client(running.id) as worker:
        assert (await worker.heartbeat(running.id, Heartbeat(state=SimState.RUNNING))).cancel
    with pytest.raises(NotFound):
        await server.client.cancel_run("run-000000000000")


async def test_a_stream_begins_with_a_snapshot_and_goes_on_live(server: Running) -> None:
    run = await server.create("SM7_TITANV")
    (sim,) = run.sims
    lines = recording_lines("ok-demo-titanv")
    half = len(lines) // 2
    await server.feed(sim, lines[:half])
    events = server.client.run_events(run.id)
    first = await anext(events)
    assert isinstance(first, SnapshotEvent)
    assert first.run == await server.client.run(run.id)
    assert [k.kernel_index for k in first.kernels] == list(range(first.run.sims[0].kernels_done))
    await server.client.post_logs(sim.id, half, lines[half:])
    await server.client.heartbeat(sim.id, Heartbeat(state=SimState.SUCCEEDED, exit_code=0))
    kernels, logged, newest = [k.kernel_index for k in first.kernels], half, first.run.sims[0]
    async for event in events:
        if isinstance(event, KernelEvent):
            kernels.append(event.stat.kernel_index)
            assert event.stat.stats["gpu_sim_cycle"] == event.stat.gpu_sim_cycle
            assert len(event.stat.stats) > 300
        elif isinstance(event, LogEvent):
            assert event.seq == logged
            assert event.lines == lines[logged : logged + len(event.lines)]
            logged += len(event.lines)
        elif isinstance(event, SimEvent):
            newest = event.sim
            if newest.state.is_finished:
                break
    await events.aclose()  # type: ignore[attr-defined]
    assert kernels == list(range(12))
    assert logged == len(lines)
    assert newest.kernels_done == 12


async def test_a_stream_takes_the_token_as_query_which_then_counts(
    server: Running, http: aiohttp.ClientSession
) -> None:
    run = await server.create()
    url = f"{server.url}/api/runs/{run.id}/events"
    async with http.get(url, params={"token": TOKEN}) as response:
        assert response.status == 200
        assert response.headers["Content-Type"].startswith("text/event-stream")
        assert response.headers["Cache-Control"] == "no-cache"
        assert response.headers["X-Accel-Buffering"] == "no"
        assert "Content-Encoding" not in response.headers
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with http.get(url, params={"token": "wrong"}, headers=headers) as response:
        assert response.status == 401
    async with http.get(f"{server.url}/api/runs", params={"token": TOKEN}) as response:
        assert response.status == 401
    async with http.get(f"{server.url}/api/runs/run-x/events", headers=headers) as response:
        assert (response.status, await response.json()) == (404, {"detail": "There is no run 'run-x'."})


async def test_the_log_route_refuses_a_bad_tail(server: Running, http: aiohttp.ClientSession) -> None:
    (sim,) = (await server.create()).sims
    headers = {"Authorization": f"Bearer {TOKEN}"}
    for tail in ("-1", "x", "", "1.5", "9" * 5000, "٣"):
        async with http.get(f"{server.url}/api/sims/{sim.id}/log", params={"tail": tail}, headers=headers) as response:
            assert response.status == 422
    with pytest.raises(NotFound):
        await server.client.sim_log_tail("sim-x", 1)


async def test_the_sample_run_is_there_finished_and_marked(server: Running) -> None:
    while not (runs := await server.client.runs()) or runs[0].state is RunState.ACTIVE:
        pass
    (run,) = runs
    assert (run.sample, run.replay, run.state, run.trace_id) == (True, True, RunState.SUCCEEDED, "sample-layers4-sm80")
    cycles = [k.gpu_sim_cycle for k in await server.client.run_kernels(run.id)]
    assert cycles == [k["gpu_sim_cycle"] for k in TRUTH["ok-layers4-a100"]["kernels"]]


async def test_what_is_no_cascade_is_said_in_a_sentence(http: aiohttp.ClientSession) -> None:
    async with CascadeClient("http://127.0.0.1:1") as nobody:
        with pytest.raises(Unreachable, match="can't reach"):
            await nobody.health()


async def test_run_create_by_a_name_twice_counts_replicas_on(server: Running) -> None:
    entries = [RunEntry(gpu_config="SM7_QV100", count=2), RunEntry(gpu_config="SM7_QV100", count=1)]
    run = await server.client.create_run(RunCreate(trace_id="demo-sm70", entries=entries))
    assert [s.replica for s in run.sims] == [0, 1, 2]
    assert isinstance(run.entries, list)
    with pytest.raises(ApiError):
        await server.client.run("..")
