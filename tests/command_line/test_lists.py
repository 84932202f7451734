"""`traces`, `trace`, `configs`, `runs`, `run show` and `run cancel`: tables, JSON, ids and exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp
import pytest

from cascade_server.contract.models import Heartbeat
from cascade_server.contract.states import RunState, SimState
from tests.command_line.commands import cascade, finished
from tests.recordings import recording_lines
from tests.servers import TOKEN, Running, running_server

ODD = "evil[/bold] [red]\x1b[31m\u202e\x07\x9b2J\ud800"


async def api(server: Running, path: str) -> bytes:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with aiohttp.ClientSession(headers=headers) as http, http.get(server.url + path) as response:
        return await response.read()


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (["traces"], "/api/traces"),
        (["trace", "demo-sm70"], "/api/traces/demo-sm70"),
        (["trace", "--json", "demo-sm70"], "/api/traces/demo-sm70"),
        (["trace", "show", "demo-sm70"], "/api/traces/demo-sm70"),
        (["configs"], "/api/gpu-configs"),
        (["runs"], "/api/runs"),
        (["run", "show", "last"], "/api/runs/{run}"),
        (["run", "compare", "last"], "/api/runs/{run}/comparison"),
        (["run", "accuracy", "last"], "/api/runs/{run}/accuracy"),
        (["sim", "files", "{sim}"], "/api/sims/{sim}/files"),
    ],
)
async def test_json_is_exactly_what_the_api_answers(server: Running, words: list[str], path: str) -> None:
    run = await finished(server, "ok-demo-qv100")
    ids = {"run": run.id, "sim": run.sims[0].id}
    done = await cascade(server.url, *(word.format(**ids) for word in words), "--json")
    assert (done.code, done.err) == (0, "")
    assert done.raw == await api(server, path.format(**ids)) + b"\n"


async def test_traces(server: Running) -> None:
    done = await cascade(server.url, "traces")
    rows = {line.split()[0]: line for line in done.out.splitlines()}
    assert "✓ ready" in rows["demo-sm70"]
    assert "demo" in rows["demo-sm70"].split("SM7_QV100")[1]
    assert "real" in rows["timed"]
    assert "sample: results only" in rows["sample-layers4-sm80"]


async def test_a_trace_with_its_kernels(server: Running) -> None:
    done = await cascade(server.url, "trace", "demo-sm70")
    assert done.code == 0
    assert [line.split()[1] for line in done.out.splitlines() if "×1×1" in line][:3] == [
        "layernorm",
        "qkv_gemm",
        "attention",
    ]
    assert (await cascade(server.url, "trace", "show", "demo-sm70")).out == done.out


async def test_configs(server: Running) -> None:
    done = await cascade(server.url, "configs")
    assert any(line.split() == ["SM7_QV100", "sm_70", "1132", "MHz"] for line in done.out.splitlines())


async def test_runs_and_their_notice(server: Running) -> None:
    stand_in = await server.create("SM7_QV100", trace="timed")
    run = await finished(server, "ok-demo-qv100")
    done = await cascade(server.url, "runs")
    rows = [line for line in done.out.splitlines() if line.startswith("run-")]
    assert [row.split()[0] for row in rows[:2]] == [run.id, stand_in.id]
    assert ["✓ succeeded" in rows[0], "● active" in rows[1]] == [True, True]
    assert f"! {stand_in.id}: The numbers do NOT describe this trace" in done.out


async def test_a_run_with_a_failed_sim_gives_its_reason_as_it_is(server: Running) -> None:
    run = await server.create("SM7_QV100", "SM7_TITANV", trace="timed")
    await server.feed(run.sims[0], recording_lines("ok-demo-qv100")[:50])
    await server.client.heartbeat(run.sims[0].id, Heartbeat(state=SimState.FAILED, error=ODD[:-1], exit_code=3))
    done = await cascade(server.url, "run", "show", run.id)
    assert done.code == 0
    assert f"! {run.notice}" in done.out
    assert "evil[/bold] [red]^[[31m\\u202e^G\\x9b2J" in done.out
    assert "✗ failed" in done.out
    assert "stand-in: " in done.out


@pytest.mark.parametrize("width", [200, 80, 60, 40, 30, 10])
async def test_tables_fit_the_terminal_and_keep_their_ids(server: Running, width: int) -> None:
    run = await finished(server, "ok-demo-qv100", "ok-demo-titanv", trace="timed")
    for words in (["runs"], ["run", "show", run.id], ["run", "compare", run.id], ["run", "accuracy", run.id]):
        done = await cascade(server.url, *words, COLUMNS=str(width))
        assert done.code == 0
        assert max(map(len, done.out.splitlines())) <= width, words
        if words[-1] == "runs" and width >= 30:
            assert run.id in done.out
        if words[1:2] == ["compare"] and width >= 20:
            assert "SM7_QV100" in done.out
            assert "SM7_TITANV" in done.out


async def test_nothing_is_cut_for_a_pipe(server: Running) -> None:
    run = await server.create("SM7_QV100", "SM7_TITANV", trace="timed")
    done = await cascade(server.url, "runs", COLUMNS="")
    assert "…" not in done.out
    assert "Too narrow" not in done.out
    assert f"! {run.id}: {run.notice}" in done.out


# -- ids -----------------------------------------------------------------------------------


async def test_a_run_by_the_beginning_of_its_id(server: Running) -> None:
    first, second = await server.create(), await server.create()
    for given in (first.id, first.id.removeprefix("run-")):
        assert (await cascade(server.url, "run", "show", given, "--json")).json["id"] == first.id
    assert (await cascade(server.url, "run", "show", "last", "--json")).json["id"] == second.id
    several = await cascade(server.url, "run", "show", "0000")
    assert several.code == 1
    assert f"'0000' is the beginning of 2 runs: {second.id}" in several.err
    sample = next(run.id for run in await server.client.runs() if run.sample)
    assert (await cascade(server.url, "run", "show", sample[4:9], "--json")).json["id"] == sample
    assert (await cascade(server.url, "run", "show", sample[:9], "--json")).json["id"] == sample


async def test_last_without_any_run(tmp_path: Path) -> None:
    async with running_server(tmp_path, samples=False) as server:
        done = await cascade(server.url, "run", "show", "last")
        assert (done.code, done.err) == (1, "cascade: There are no runs yet.\n")
        assert "There are no runs yet" in (await cascade(server.url, "runs")).out
        assert (await cascade(server.url, "runs", "--json")).json == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trace", "nope"], "There is no trace 'nope'."),
        (["trace", ".."], "There is no trace '..'"),
        (["trace", "show", "a/b"], "There is no trace 'a/b'"),
        (["run", "show", "zzz"], "There is no run 'zzz'"),
        (["run", "show", ""], "There is no run ''"),
        (["run", "show", "run-ffffffffffff"], "There is no run 'run-ffffffffffff'."),
        (["run", "watch", "run-ffffffffffff"], "There is no run"),
        (["run", "cancel", "../runs"], "There is no run"),
        (["run", "compare", "\x1b[2J"], "There is no run '\\x1b[2J'"),
        (["run", "accuracy", "run-ffffffffffff"], "There is no run"),
        (["run", "export", "run-ffffffffffff"], "There is no run"),
        (["sim", "log", "sim-ffffffffffff"], "There is no sim 'sim-ffffffffffff'."),
        (["sim", "log", "--follow", "sim-ffffffffffff"], "There is no sim"),
        (["sim", "log", "..%2f"], "There is no sim '..%2f'"),
        (["sim", "files", "sim-ffffffffffff"], "There is no sim"),
    ],
)
async def test_ids_that_are_none(server: Running, words: list[str], said: str) -> None:
    done = await cascade(server.url, *words)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"cascade: {said}")
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize(
    "words",
    [
        ["trace"],
        ["trace", "demo-sm70", "--nope"],
        ["run"],
        ["run", "nope"],
        ["run", "show"],
        ["run", "export", "last", "--format", "xml"],
        ["run", "watch", "last", "--give-up-after", "-1"],
        ["sim", "log", "sim-ffffffffffff", "--tail", "-1"],
        ["traces", "--token-file", "/does/not/exist"],
        ["traces", "--url", "localhost:8000"],
        ["traces", "--url", "http://["],
        ["traces", "--url", "file:///etc/passwd"],
    ],
)
async def test_wrong_usage_is_2(server: Running, words: list[str]) -> None:
    done = await cascade(server.url, *words, CASCADE_TOKEN="" if "--token-file" in words else TOKEN)
    assert done.code == 2
    assert "Traceback" not in done.err + done.out


# -- cancel --------------------------------------------------------------------------------


async def test_cancel(server: Running) -> None:
    run = await server.create("SM7_QV100", count=3)
    await server.finish(run.sims[0], "ok-demo-qv100")
    done = await cascade(server.url, "run", "cancel", "last")
    assert (done.code, done.out) == (0, f"{run.id}: cancelled 2 sims. Now: 1 succeeded, 2 cancelled.\n")
    again: Any = await cascade(server.url, "run", "cancel", run.id)
    assert (again.code, again.out) == (0, f"{run.id} had ended already: 1 succeeded, 2 cancelled.\n")
    assert (await cascade(server.url, "run", "cancel", run.id, "--json")).json["state"] == RunState.PARTIAL
