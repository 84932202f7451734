"""`run create` and `run watch`: asking, refusing, watching to the end, lost connections, Ctrl-C."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cascade_server.command_line.follow import Patience
from cascade_server.contract.client import Conflict, Unreachable
from cascade_server.contract.events import RUN_EVENT, SnapshotEvent
from cascade_server.contract.models import Heartbeat, RunDetail
from cascade_server.contract.states import RunState, SimState
from tests.command_line.commands import CASCADE, Terminal, cascade, finished, process_environment, sim_on
from tests.processes import ServerProcess, server_process
from tests.recordings import TRUTH, recording_lines
from tests.servers import Running

# -- create --------------------------------------------------------------------------------


async def test_create_with_configs_and_counts(server: Running) -> None:
    done = await cascade(
        server.url, "run", "create", "demo-sm70", "--on", "SM7_QV100:2", "--on", "SM7_TITANV", "--json"
    )
    assert done.code == 0
    run = RunDetail.model_validate_json(done.raw)
    assert [(e.gpu_config, e.count) for e in run.entries] == [("SM7_QV100", 2), ("SM7_TITANV", 1)]
    assert (await server.client.run(run.id)).entries == run.entries


async def test_create_on_the_suggested_config_shows_the_notice(server: Running) -> None:
    done = await cascade(server.url, "run", "create", "timed")
    (run, *_) = await server.client.runs()
    assert done.code == 0
    assert done.out.startswith(f"Launched {run.id}: 1 sim of timed on SM7_QV100.\n! The numbers do NOT describe")


async def test_create_from_the_environment(server: Running) -> None:
    done = await cascade(server.url, "run", "create", "timed", "--json", CASCADE_RUN_ON="SM7_QV100 SM7_TITANV:2")
    assert [(e["gpu_config"], e["count"]) for e in done.json["entries"]] == [("SM7_QV100", 1), ("SM7_TITANV", 2)]


@pytest.mark.parametrize("on", ["", ":2", "X:", "X:0", "X:65", "X:-1", "X:2:3", "X:1e1", "X:٣", "X: 1"])
async def test_what_is_no_config_and_count(server: Running, on: str) -> None:
    done = await cascade(server.url, "run", "create", "demo-sm70", "--on", on)
    assert (done.code, done.out) == (2, "")
    assert "is no CONFIG or CONFIG:COUNT" in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["demo-sm70", "--on", "SM80_A100"], "SM80_A100 is an sm_80 config"),
        (["demo-sm70", "--on", "nope[/red]"], "There is no GPU config 'nope[/red]'."),
        (["sample-layers4-sm80"], "is a sample without instruction traces"),
        (["nope", "--on", "SM7_QV100"], "There is no trace 'nope'."),
        (["nope"], "There is no trace 'nope'."),
    ],
)
async def test_what_the_server_refuses_is_1(server: Running, words: list[str], said: str) -> None:
    done = await cascade(server.url, "run", "create", *words)
    assert (done.code, done.out) == (1, "")
    assert said in done.err


async def test_many_sims_without_a_terminal_need_yes(server: Running) -> None:
    words = ["run", "create", "demo-sm70", "--on", "SM7_QV100:3", "--on", "SM7_TITANV:2"]
    refused = await cascade(server.url, *words, answer="y\n")
    assert refused.code == 1
    assert "5 sims are more than 4; say --yes" in refused.err
    assert all(run.sample for run in await server.client.runs())
    assert (await cascade(server.url, *words, "--yes")).code == 0
    assert (await cascade(server.url, *words[:5])).code == 0


@pytest.mark.parametrize(("answer", "code"), [(b"y\n", 0), (b"n\n", 1), (b"\n", 1)])
async def test_many_sims_on_a_terminal_are_asked_for(server: Running, answer: bytes, code: int) -> None:
    terminal = Terminal(server.url, "run", "create", "demo-sm70", "--on", "SM7_QV100:5")
    await terminal.until(rb"Launch 5 sims of demo-sm70\? \[y/N\]")
    terminal.write(answer)
    assert await terminal.ended() == code
    assert (RunState.ACTIVE in [run.state for run in await server.client.runs()]) is (code == 0)


async def test_an_answer_that_got_lost_may_stand_for_a_run() -> None:
    async def cut(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    listener = await asyncio.start_server(cut, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    done = await cascade(f"http://127.0.0.1:{port}", "run", "create", "x", "--on", "SM7_QV100")
    listener.close()
    assert done.code == 3
    assert "the run may have been made: look with `cascade runs`" in done.err


# -- watch ---------------------------------------------------------------------------------


async def test_watching_a_run_to_its_end(server: Running) -> None:
    run = await server.create("SM7_QV100", "SM7_TITANV", trace="timed")
    task = asyncio.create_task(cascade(server.url, "run", "watch", run.id))
    await server.finish(run.sims[0], "ok-demo-qv100")
    await server.finish(run.sims[1], "ok-demo-titanv")
    done = await task
    assert (done.code, done.err) == (0, "")
    first, second, *lines, last = done.out.splitlines()
    assert first == f"Notice: {run.notice}"
    assert second == f"{run.id}: 2 sims of timed"
    assert last == f"{run.id}: succeeded (2 succeeded)"
    for sim, recording in zip(run.sims, ("ok-demo-qv100", "ok-demo-titanv"), strict=True):
        mine = [line.removeprefix(f"{sim.id} {sim.gpu_config} #0 (stand-in): ") for line in lines if sim.id in line]
        kernels = [line for line in mine if line.startswith("kernel ")]
        cycles = [f"{kernel['gpu_sim_cycle']:,} cycles" for kernel in TRUTH[recording]["kernels"]]
        assert [line.split(": ")[1].split(", ")[0] for line in kernels] == cycles
        assert [line.split()[1] for line in kernels] == [str(n) for n in range(1, 13)]
        assert mine[-1] == "succeeded"


async def test_a_run_that_ended_otherwise_is_4(server: Running) -> None:
    run = await server.create("SM7_QV100", count=2)
    await server.finish(run.sims[0], "ok-demo-qv100")
    await server.client.heartbeat(run.sims[1].id, Heartbeat(state=SimState.FAILED, error="It broke.", exit_code=1))
    done = await cascade(server.url, "run", "watch", "last")
    assert done.code == 4
    assert f"{run.sims[1].id} SM7_QV100 #1: failed: It broke." in done.out
    assert done.out.endswith(f"{run.id}: partial (1 succeeded, 1 failed)\n")


async def test_watching_as_json(server: Running) -> None:
    run = await server.create("SM7_QV100")
    task = asyncio.create_task(cascade(server.url, "run", "watch", run.id, "--json"))
    await server.finish(run.sims[0], "ok-demo-qv100")
    done = await task
    assert done.code == 0
    events = [RUN_EVENT.validate_json(line) for line in done.out.splitlines()]
    assert isinstance(events[0], SnapshotEvent)
    assert isinstance(events[-1], SnapshotEvent)
    assert events[-1].run == await server.client.run(run.id)
    assert len(events[-1].kernels) == 12
    assert all(json.loads(line)["type"] for line in done.out.splitlines())


async def test_a_finished_run_is_shown_at_once(server: Running) -> None:
    run = await finished(server, "ok-demo-qv100")
    done = await cascade(server.url, "run", "watch", run.id)
    assert done.code == 0
    assert done.out.count(": kernel ") == 12


# -- with real processes -------------------------------------------------------------------


async def command(server: ServerProcess, *words: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *CASCADE,
        *words,
        env=process_environment(server.url),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


@pytest.fixture
async def slow(tmp_path: Path) -> AsyncIterator[ServerProcess]:
    async with server_process(tmp_path, replay_speed="6") as server:
        yield server


async def test_create_and_watch_real_replays(tmp_path: Path) -> None:
    async with server_process(tmp_path, replay_speed="0") as server:
        words = ("run", "create", "demo-sm70", "--on", "SM7_QV100", "--on", "SM7_TITANV", "--watch")
        process = await command(server, *words)
        async with asyncio.timeout(40):
            out, err = await process.communicate()
        assert (process.returncode, err) == (0, b"")
        text = out.decode()
        assert text.startswith("Launched run-")
        assert "Notice: Replayed, not simulated now" in text
        assert text.count(": kernel ") == 24
        assert text.splitlines()[-1].endswith(": succeeded (2 succeeded)")


async def test_ctrl_c_leaves_the_run_alone(slow: ServerProcess) -> None:
    process = await command(slow, "run", "create", "demo-sm70", "--watch")
    assert process.stdout is not None
    async with asyncio.timeout(30):
        while b": running" not in await process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
        _, err = await process.communicate()
    assert process.returncode == 130
    async with slow.client() as client:
        (run, *_) = await client.runs()
    assert run.state is RunState.ACTIVE
    assert err.decode().startswith(f"cascade: stopped watching, but {run.id} goes on")
    assert b"Traceback" not in err


async def test_a_server_that_restarts_is_found_again(slow: ServerProcess) -> None:
    process = await command(slow, "run", "create", "demo-sm70", "--watch")
    assert process.stdout is not None
    assert process.stderr is not None
    async with asyncio.timeout(50):
        while b"kernel 1/12" not in await process.stdout.readline():
            pass
        await slow.stop(signal.SIGKILL)
        assert b"the connection was lost" in await process.stderr.readline()
        await slow.start()
        out, err = await process.communicate()
    assert err == b"cascade: connected again\n"
    kernels = re.findall(rb"kernel (\d+)/12", out)
    assert kernels == [str(n).encode() for n in range(2, 13)]
    assert process.returncode == 0


async def test_it_gives_up_when_told_to(slow: ServerProcess) -> None:
    process = await command(slow, "run", "create", "demo-sm70", "--watch", "--give-up-after", "0")
    assert process.stdout is not None
    async with asyncio.timeout(30):
        while b": running" not in await process.stdout.readline():
            pass
        await slow.stop(signal.SIGKILL)
        _, err = await process.communicate()
    assert process.returncode == 3
    assert len(err.splitlines()) == 1


async def test_only_lost_connections_are_waited_for() -> None:
    said: list[str] = []
    patience = Patience(60, said.append)
    with pytest.raises(Conflict):
        await patience.wait(Conflict(409, "no"))
    await Patience(0.001, said.append).wait(Unreachable("gone"))
    assert said == ["the connection was lost (gone); trying again"]
    patience.connected()
    assert len(said) == 1


# -- on a terminal -------------------------------------------------------------------------


async def test_bars_on_a_terminal(server: Running) -> None:
    run = await server.create("SM7_QV100", "SM7_TITANV", trace="timed")
    terminal = Terminal(server.url, "run", "watch", run.id, columns=60)
    await terminal.until(rb"pending.*SM7_QV100.*#0.*0/12")
    lines = recording_lines("ok-demo-qv100")
    await server.feed(run.sims[0], lines[: len(lines) // 2])
    await terminal.until(rb"running.*SM7_QV100.*#0.*[1-9]\d?/12")
    await server.client.heartbeat(run.sims[0].id, Heartbeat(state=SimState.FAILED, error="It [/broke]."))
    await server.client.cancel_run(run.id)
    assert await terminal.ended() == 4
    text = terminal.out.decode()
    assert "The numbers do NOT describe this trace" in text
    # The cursor is back, and the table stands where the bars were.
    assert text.rindex("\x1b[?25h") < text.rindex("It [/broke].")
    assert re.search(r"partial|failed|cancelled", text[text.rindex("\x1b[?25h") :])


async def test_more_sims_than_lines(server: Running) -> None:
    run = await server.create("SM7_QV100", count=30)
    terminal = Terminal(server.url, "run", "watch", run.id, columns=40, lines=12)
    await terminal.until(rb"and \d+ more sims")
    terminal.interrupt()
    assert await terminal.ended() == 130
    assert b"goes on" in terminal.out
    assert sim_on(run, "SM7_QV100").state is SimState.PENDING
