"""`run compare`, `run accuracy`, `run export`, `sim log` and `sim files`."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
from pathlib import Path

import pytest

from cascade_server.command_line.client import Client
from cascade_server.command_line.export import HEADER, csv_bytes, inert
from cascade_server.command_line.sims import LogReader
from cascade_server.command_line.text import visible
from cascade_server.contract.models import Heartbeat, KernelStat, RunResults
from cascade_server.contract.states import SimState
from tests.command_line.commands import REAL_NS, Terminal, cascade, finished, shell
from tests.recordings import TRUTH, recording_bytes, recording_lines
from tests.servers import TOKEN, Running

HALF = len(recording_lines("ok-demo-qv100")) // 2

# -- compare and accuracy ------------------------------------------------------------------


async def test_compare(server: Running) -> None:
    run = await finished(server, "ok-demo-qv100", "ok-demo-titanv", trace="timed")
    done = await cascade(server.url, "run", "compare", "last")
    assert done.code == 0
    notice, header, *rows = done.out.splitlines()
    assert notice == f"! {run.notice}"
    assert header.split() == ["INDEX", "KERNEL", "REAL", "SM7_QV100", "SM7_TITANV"]
    assert len(rows) == 13
    first, second = (TRUTH[name]["kernels"][0]["gpu_sim_cycle"] for name in ("ok-demo-qv100", "ok-demo-titanv"))
    first_us, second_us = first / 1132, second / 1200
    assert rows[0].split() == [
        *["0", "real_0[x]", "5.00", "µs", f"{first_us:.2f}", "µs", f"{second_us:.2f}", "µs"],
        f"{second_us / first_us:.2f}×",
    ]
    assert rows[-1].split()[:4] == ["all", "12", "60.00", "µs"]


async def test_compare_before_everything_is_there(server: Running) -> None:
    run = await server.create("SM7_QV100", "SM7_TITANV")
    done = await cascade(server.url, "run", "compare", run.id)
    assert done.code == 0
    assert "is not finished" in done.out
    assert "No kernel has finished yet." in done.out
    await server.feed(run.sims[0], recording_lines("ok-demo-qv100")[:HALF])
    half = await cascade(server.url, "run", "compare", run.id)
    assert "–" in half.out
    assert "no real timing" in half.out


async def test_accuracy(server: Running) -> None:
    await finished(server, "ok-demo-qv100", trace="timed")
    done = await cascade(server.url, "run", "accuracy", "last")
    assert done.code == 0
    row = next(line for line in done.out.splitlines() if line.startswith("SM7_QV100"))
    errors = [(k["gpu_sim_cycle"] / 1132 * 1000 - REAL_NS) / REAL_NS * 100 for k in TRUTH["ok-demo-qv100"]["kernels"]]
    assert row.split()[1:4] == ["12", f"{sum(map(abs, errors)) / 12:.2f}", "%"]
    assert "Worst kernels on SM7_QV100:" in done.out
    assert f"{max(errors, key=abs):+.2f} %" in done.out
    assert "real_1[x]" in done.out
    assert "! The numbers do NOT describe" in done.out


async def test_accuracy_without_real_timing(server: Running) -> None:
    await finished(server, "ok-demo-qv100")
    done = await cascade(server.url, "run", "accuracy", "last")
    assert done.code == 0
    assert "no real timing" in done.out


# -- export --------------------------------------------------------------------------------


async def test_export_csv(server: Running, tmp_path: Path) -> None:
    run = await finished(server, "ok-demo-qv100", "ok-demo-titanv", trace="timed")
    path = tmp_path / "out.csv"
    done = await cascade(server.url, "run", "export", "last", "--output", str(path))
    assert done.code == 0
    assert done.out.startswith(f"Wrote {path} (24 kernels, ")
    assert f"! {run.notice}" in done.err
    rows = list(csv.DictReader(io.StringIO(path.read_bytes().decode(), newline="")))
    truth = TRUTH["ok-demo-qv100"]["kernels"] + TRUTH["ok-demo-titanv"]["kernels"]
    assert [int(row["gpu_sim_cycle"]) for row in rows] == [kernel["gpu_sim_cycle"] for kernel in truth]
    assert {row["stand_in"] for row in rows} == {"true"}
    assert rows[0]["kernel_name"] == "_Z9layernormPKfPfi"
    assert rows[0]["kernel_name_demangled"] == "layernorm(float const*, float*, int)"
    assert float(rows[0]["sim_time_ns"]) == pytest.approx(truth[0]["gpu_sim_cycle"] / 1132 * 1000)
    assert list(tmp_path.glob(".*.part")) == []
    assert path.stat().st_mode & 0o777 == 0o666 & ~current_umask()


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("name", ["=1+1", "+x", "-x", "@SUM(A1)", "\t=1", "\r=1", "  =1", "＝1"])
def test_cells_that_would_be_formulas(name: str) -> None:
    assert inert(name) == f"'{name}"


async def test_csv_quotes_what_needs_it(server: Running) -> None:
    run = await server.create()
    names = ['a,"b"\nc', "=HYPERLINK(1)", "void f<int[4]>(x)", "ü\ud800"]
    stats = [KernelStat(sim_id=run.sims[0].id, kernel_index=at, kernel_name="x") for at in range(len(names))]
    stats = [stat.model_copy(update={"kernel_name": name}) for stat, name in zip(stats, names, strict=True)]
    header, *rows = csv.reader(io.StringIO(csv_bytes(run, stats).decode(), newline=""))
    assert tuple(header) == HEADER
    at = HEADER.index("kernel_name")
    assert [row[at] for row in rows] == ['a,"b"\nc', "'=HYPERLINK(1)", "void f<int[4]>(x)", "ü?"]
    assert {row[HEADER.index("gpu_sim_cycle")] for row in rows} == {""}


async def test_export_json_and_perfetto(server: Running, tmp_path: Path) -> None:
    run = await finished(server, "ok-demo-qv100")
    done = await cascade(server.url, "run", "export", run.id, "--format", "json", "--output", str(tmp_path))
    assert done.code == 0
    results = RunResults.model_validate_json((tmp_path / f"{run.id}-results.json").read_bytes())
    assert len(results.sims[0].kernels[0].stats) > 100
    done = await cascade(server.url, "run", "export", run.id, "--format", "perfetto", "--output", str(tmp_path))
    assert done.code == 0
    timeline = json.loads((tmp_path / f"{run.id}-perfetto.json").read_bytes())
    assert len([event for event in timeline["traceEvents"] if event["ph"] == "X"]) == 12


@pytest.mark.parametrize("kind", ["csv", "json"])
async def test_export_overwrites_only_when_forced(server: Running, tmp_path: Path, kind: str) -> None:
    await finished(server, "ok-demo-qv100")
    path = tmp_path / "out"
    path.write_text("mine")
    words = ["run", "export", "last", "--format", kind, "--output", str(path)]
    refused = await cascade(server.url, *words)
    assert (refused.code, refused.out) == (1, "")
    assert f"{path} is there already; --force overwrites it." in refused.err
    assert path.read_text() == "mine"
    assert (await cascade(server.url, *words, "--force")).code == 0
    assert path.read_text() != "mine"
    assert [p.name for p in tmp_path.iterdir() if p.name != "data"] == ["out"]


async def test_export_leaves_nothing_behind_when_it_fails(server: Running, tmp_path: Path) -> None:
    run = await finished(server, "ok-demo-qv100")
    done = await cascade(server.url, "run", "export", run.id, "--output", str(tmp_path / "gone" / "x.csv"))
    assert done.code == 1
    assert "can't be written" in done.err
    sink = tmp_path / "sink"
    sink.mkdir()

    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readline()).split()[1].decode()
        body = run.model_dump_json().encode() if not path.endswith("results") else b'{"run": {'
        length = len(body) if not path.endswith("results") else 10_000
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % length + body)
        await writer.drain()
        writer.close()

    listener = await asyncio.start_server(cut, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    done = await cascade(url, "run", "export", run.id, "--format", "json", "--output", str(sink))
    listener.close()
    assert done.code == 3
    assert list(sink.iterdir()) == []


# -- sim log and files ---------------------------------------------------------------------


async def test_the_log_byte_for_byte(server: Running) -> None:
    run = await finished(server, "ok-demo-qv100")
    log = recording_bytes("ok-demo-qv100")
    assert (await cascade(server.url, "sim", "log", run.sims[0].id)).raw == log
    tail = b"".join(log.splitlines(keepends=True)[-3:])
    assert (await cascade(server.url, "sim", "log", run.sims[0].id, "--tail", "3")).raw == tail
    assert (await cascade(server.url, "sim", "log", run.sims[0].id, "-n", "0")).raw == b""
    # A sim that has ended is not waited for.
    assert (await cascade(server.url, "sim", "log", run.sims[0].id, "--follow")).raw == log


@pytest.mark.parametrize("tail", [None, 2])
async def test_following_a_log(server: Running, tail: int | None) -> None:
    run = await server.create("SM7_QV100", "SM7_TITANV")
    sim, log = run.sims[0], recording_bytes("ok-demo-qv100")
    lines = recording_lines("ok-demo-qv100")
    await server.feed(sim, lines[:500])
    words = ["--tail", str(tail)] if tail is not None else []
    task = asyncio.create_task(cascade(server.url, "sim", "log", sim.id, "--follow", *words))
    for at in range(500, len(lines), 700):
        await server.client.post_logs(sim.id, at, lines[at : at + 700])
    await server.client.post_logs(sim.id, len(lines), ["odd \udcff\x1b[31m"], unterminated=True)
    await server.client.heartbeat(sim.id, Heartbeat(state=SimState.SUCCEEDED, exit_code=0))
    done = await task
    assert (done.code, done.err) == (0, "")
    whole = log + b"odd \xff\x1b[31m"
    if tail is None:
        assert done.raw == whole
    else:
        assert whole.endswith(done.raw)
        assert done.raw


async def test_a_terminal_gets_nothing_to_act_on(server: Running) -> None:
    run = await server.create()
    await server.feed(run.sims[0], ["\x1b]0;title\x07 \x1b[2J plain [red] \udcff \u202e", "\ttab"])
    terminal = Terminal(server.url, "sim", "log", run.sims[0].id)
    assert await terminal.ended() == 0
    assert terminal.out.replace(b"\r\n", b"\n").decode() == ("^[]0;title^G ^[[2J plain [red] \ufffd \\u202e\n\ttab\n")


def test_only_what_a_terminal_acts_on_is_made_visible() -> None:
    assert visible("f<int[4]> ü 漢 ✓\n\t") == "f<int[4]> ü 漢 ✓\n\t"
    assert visible("\x00\x7f\x85\u2066\U000e0041\ud8ff") == "^@^?\\x85\\u2066\\U000e0041\ufffd"


async def test_files(server: Running) -> None:
    run = await server.create()
    sim = run.sims[0]
    assert "has left no files" in (await cascade(server.url, "sim", "files", sim.id)).out
    async with server.sim_client(sim.id) as worker:
        await worker.put_file(sim.id, "kernel-stats.csv", b"a,b\n1,2\n")
    done = await cascade(server.url, "sim", "files", sim.id)
    assert done.out.splitlines()[1].split()[:4] == ["kernel-stats.csv", "8", "B", "text/csv"]


# -- pipes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["log", "runs", "json"])
async def test_a_reader_that_leaves_is_no_error(server: Running, what: str) -> None:
    run = await finished(server, "ok-demo-qv100")
    words = {"log": f"sim log {run.sims[0].id}", "runs": "trace demo-sm70", "json": "configs --json"}[what]
    # head closes its end before the command writes.
    done = await shell(server.url, f"cascade {words} | head -c 0; echo ${{PIPESTATUS[0]}}")
    assert done.stderr == b""
    assert done.stdout == b"141\n"


async def test_a_full_disk_is_1(server: Running) -> None:
    for words in ("runs", "runs --json"):
        done = await shell(server.url, f"cascade {words} > /dev/full")
        assert done.returncode == 1
        assert done.stderr == b"cascade: [Errno 28] No space left on device.\n"


@pytest.mark.parametrize("cut", [0, 1, 5000, 5001, 5020])
async def test_a_log_goes_on_where_it_was_cut(server: Running, cut: int) -> None:
    run = await server.create()
    lines, log = recording_lines("ok-demo-qv100")[:400], recording_bytes("ok-demo-qv100")
    log = b"".join(log.splitlines(keepends=True)[:400])
    await server.feed(run.sims[0], lines)
    written = bytearray()
    async with Client(server.url, TOKEN) as client:
        reader = LogReader(client, run.sims[0].id, written.extend)
        # As if the connection had broken there, in the middle of a line.
        reader.take(log[:cut])
        # Fewer lines than there are by now: the log grows while it is asked for.
        await reader.read_to(log[:cut].count(b"\n") + 1)
        await reader.read_to(400)
    assert bytes(written) == log
