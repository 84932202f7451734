"""Which files a sim leaves on the server, under which names and as which bytes, whatever goes wrong on the way."""

from __future__ import annotations

import asyncio
import gzip
import os
import re
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascade_server.contract.client import CascadeClient
from cascade_server.contract.models import FILE_NAME, StepTimelineBody
from cascade_worker import outputs
from cascade_worker.delivery import TRIES, Delivery
from cascade_worker.outputs import LOG_FILE, STATS_FILE, file_name, find_outputs, upload_log, upload_run
from cascade_worker.retry import SimOver, Undeliverable
from cascade_worker.spool import Spool
from cascade_worker.worker import Worker, WorkerSettings
from tests.recordings import CASES, RECORDINGS, recording_bytes
from tests.worker.stand_ins import SIM_ID, TOKEN, FakeServer, Fault, fake_accelsim, fake_server, make_trace
from tests.worker.timelines import QV100_MHZ, demo_trace

LIMIT_S = 30.0


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    async with fake_server() as running:
        yield running


async def no_sleep(_: float) -> None:
    await asyncio.sleep(0)


@asynccontextmanager
async def delivering(server: FakeServer, *, token: str = TOKEN, **more: Any) -> AsyncIterator[Delivery]:
    async with CascadeClient(server.url, token) as client, asyncio.timeout(LIMIT_S):
        given: dict[str, Any] = {"patience_s": 1e9, "sleep": no_sleep} | more
        yield Delivery(client, SIM_ID, **given)


# -- names and choice ----------------------------------------------------------------------------


@given(places=st.lists(st.text(min_size=1, max_size=200) | st.sampled_from(["a/b", "a_b", "..", "x.txt"]), max_size=20))
def test_names_are_the_contracts_and_never_twice(places: list[str]) -> None:
    taken = {LOG_FILE, STATS_FILE}
    for place in places:
        for ending in ("", ".gz"):
            name = file_name(place, ending, taken)
            assert re.fullmatch(FILE_NAME, name)
            assert name not in taken
            assert name.endswith(ending)
            taken.add(name)


def test_names_stay_readable() -> None:
    assert file_name("checkpoint_files/x", ".gz", set()) == "checkpoint_files_x.gz"
    assert file_name("a b/ü.txt", "", {"a_b__.txt"}) == "a_b__-2.txt"
    assert file_name("simulator.log", ".gz", {LOG_FILE}) == "simulator-2.log.gz"
    assert file_name("x" * 300 + ".log", ".gz", set()) == "x" * 121 + ".log.gz"


def test_only_the_simulators_own_files_are_found(tmp_path: Path) -> None:
    run = tmp_path / "run"
    for place in ("out.txt", "checkpoint_files/deep/x", "checkpoint_files/traces/y", "traces/kernelslist.g"):
        (run / place).parent.mkdir(parents=True, exist_ok=True)
        (run / place).write_text("x")
    (run / "empty").write_text("")
    (tmp_path / "secret").write_text("secret")
    (run / "link.txt").symlink_to(tmp_path / "secret")
    (run / "folder").symlink_to(tmp_path)
    os.mkfifo(run / "pipe")
    assert [output.place for output in find_outputs(run)] == [
        "checkpoint_files/deep/x",
        "checkpoint_files/traces/y",
        "out.txt",
    ]
    assert find_outputs(tmp_path / "none") == []


# -- uploading -----------------------------------------------------------------------------------


async def test_text_is_gzipped_and_the_rest_goes_as_it_is(server: FakeServer, tmp_path: Path) -> None:
    big = b"all work and no play\n" * 100_000
    content = {"big.txt": big, "a.log.gz": b"\x1f\x8b text", "b.XZ": b"xz", "c.zst": b"zst", "d.bin": b"\0\1"}
    for name, data in content.items():
        (tmp_path / name).write_bytes(data)
    async with delivering(server) as delivery:
        await upload_run(delivery, tmp_path)
        packed = server.files.pop("big.txt.gz")
        assert gzip.decompress(packed) == big
        assert packed[4:8] == bytes(4)  # no time in it
        assert server.files == {name: data for name, data in content.items() if name != "big.txt"}
        await upload_run(delivery, tmp_path)
        assert server.files["big.txt.gz"] == packed


async def test_of_the_log_only_what_was_printed_is_sent(server: FakeServer, tmp_path: Path) -> None:
    log = recording_bytes("ok-vec4-qv100")
    (tmp_path / "log").write_bytes(log + b"cascade: more\n")
    async with delivering(server) as delivery:
        await upload_log(delivery, tmp_path / "log", len(log))
        await upload_log(delivery, tmp_path / "log", 0)
    assert server.puts == [LOG_FILE]
    assert gzip.decompress(server.files[LOG_FILE]) == log


@pytest.mark.parametrize(
    "faults", [[Fault.DROP], [Fault.BUSY, Fault.LOSE_REPLY, Fault.DROP], [Fault.NONSENSE], [Fault.BUSY] * (TRIES - 1)]
)
async def test_uploads_are_tried_again(server: FakeServer, tmp_path: Path, faults: list[Fault]) -> None:
    (tmp_path / "a.txt").write_text("hello")
    server.file_faults = {"a.txt.gz": list(faults), "": [fault for fault in faults if fault is not Fault.NONSENSE]}
    async with delivering(server) as delivery:
        await upload_run(delivery, tmp_path)
        assert await delivery.post_step_timeline(StepTimelineBody(simulated={"x": 1}))
    assert gzip.decompress(server.files["a.txt.gz"]) == b"hello"
    assert server.timelines[-1] == {"simulated": {"x": 1}, "compare": None}


@pytest.mark.parametrize("fault", [Fault.TOO_LARGE, Fault.REFUSE])
async def test_a_refused_file_is_one_line_and_the_others_go_on(
    server: FakeServer, tmp_path: Path, caplog: pytest.LogCaptureFixture, fault: Fault
) -> None:
    for name in ("a.txt", "b.txt", "c.txt"):
        (tmp_path / name).write_text(name)
    server.file_faults = {"b.txt.gz": [fault]}
    async with delivering(server) as delivery:
        await upload_run(delivery, tmp_path)
    assert sorted(server.files) == ["a.txt.gz", "c.txt.gz"]
    assert server.puts == ["a.txt.gz", "b.txt.gz", "c.txt.gz"]
    (line,) = [record.getMessage() for record in caplog.records if record.name.startswith("cascade")]
    assert line.startswith("the file b.txt.gz is left out: ")


async def test_one_file_that_never_goes_through_holds_nothing_up(server: FakeServer, tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(name)
    server.file_faults = {"a.txt.gz": [Fault.BUSY] * 1000}
    async with delivering(server) as delivery:
        await upload_run(delivery, tmp_path)
    assert server.puts == ["a.txt.gz"] * TRIES + ["b.txt.gz"]
    assert len(server.beats) == 1


async def test_a_server_that_is_away_is_waited_for_until_patience_ends(server: FakeServer, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    now = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        await asyncio.sleep(0)

    server.file_faults = {"a.txt.gz": [Fault.DROP] * 10_000}
    server.beat_faults = [Fault.DROP] * 10_000
    options: dict[str, Any] = {
        "patience_s": 100.0,
        "clock": lambda: now,
        "draw": lambda low, high: high,
        "sleep": sleep,
    }
    async with delivering(server, **options) as delivery:
        with pytest.raises(Undeliverable, match="The server took nothing for"):
            await upload_run(delivery, tmp_path)
    assert len(server.puts) > 2 * TRIES


async def test_a_sim_that_is_over_takes_no_files(server: FakeServer, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    async with delivering(server, token="wrong") as delivery:
        with pytest.raises(SimOver):
            await upload_run(delivery, tmp_path)


async def test_a_server_that_takes_no_byte_is_as_good_as_away(server: FakeServer, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    server.hang_files = asyncio.Event()
    async with delivering(server, stall_s=0.02) as delivery:
        await upload_run(delivery, tmp_path)
    server.hang_files.set()
    assert server.puts == ["a.txt.gz"] * TRIES


async def test_a_file_that_can_not_be_read_is_left_out(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.bin").write_bytes(b"\0a")
    (tmp_path / "b.txt").write_text("b")
    pread = os.pread

    def failing(fd: int, size: int, at: int) -> bytes:
        if size == 2:
            raise OSError(5, "Input/output error")
        return pread(fd, size, at)

    monkeypatch.setattr(os, "pread", failing)
    async with delivering(server) as delivery:
        await upload_run(delivery, tmp_path)
    assert list(server.files) == ["b.txt.gz"]
    assert "the file a.bin is left out: it can't be read (Input/output error)" in caplog.text


async def test_a_flood_of_files_is_cut_off(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(outputs, "MAX_FILES", 3)
    for number in range(5):
        (tmp_path / f"{number}.txt").write_text("x")
    async with delivering(server) as delivery:
        await upload_run(delivery, tmp_path)
    assert sorted(server.files) == ["0.txt.gz", "1.txt.gz", "2.txt.gz"]
    assert "2 of 5 files" in caplog.text


# -- in a worker ---------------------------------------------------------------------------------


@asynccontextmanager
async def working(server: FakeServer, folder: Path, **more: Any) -> AsyncIterator[asyncio.Task[int]]:
    given: dict[str, Any] = {
        "sim_id": SIM_ID,
        "gpu_config": "SM7_QV100",
        "work_dir": folder,
        "heartbeat_s": 0.05,
        "stop_limit_s": 0.5,
    }
    folder.mkdir(exist_ok=True)
    async with CascadeClient(server.url, TOKEN) as client, asyncio.timeout(LIMIT_S):
        with closing(Spool(folder / "simulator.log")) as spool:
            task = asyncio.create_task(Worker(WorkerSettings(**given | more), client, spool).run())
            yield task
            assert task.done()


def recording(name: str) -> dict[str, Any]:
    return {"replay_log": RECORDINGS / f"{name}.log.xz", "replay_speed": 0.0}


async def until(happened: Callable[[], bool]) -> None:
    while not happened():
        await asyncio.sleep(0.005)


async def test_a_replay_leaves_its_log_its_table_and_its_timeline(server: FakeServer, tmp_path: Path) -> None:
    trace = demo_trace(tmp_path / "demo")
    async with working(
        server, tmp_path / "sim", trace=trace, core_clock_mhz=QV100_MHZ, **recording("ok-demo-qv100")
    ) as worker:
        assert await worker == 0
    assert gzip.decompress(server.files[LOG_FILE]) == recording_bytes("ok-demo-qv100") == server.log
    assert server.files[STATS_FILE].count(b"\r\n") == 13
    assert sorted(server.files) == [STATS_FILE, LOG_FILE]
    (body,) = server.timelines
    assert body["simulated"]["summary"]["simulation"]["kernels_mapped"] == 3
    assert [path.name for path in (tmp_path / "sim").iterdir()] == ["simulator.log"]


async def test_a_failed_sim_leaves_what_there_is(server: FakeServer, tmp_path: Path) -> None:
    trace = demo_trace(tmp_path / "demo")
    async with working(
        server, tmp_path / "sim", trace=trace, core_clock_mhz=QV100_MHZ, **recording("fail-killed")
    ) as worker:
        assert await worker == 1
    assert gzip.decompress(server.files[LOG_FILE]) == recording_bytes("fail-killed") == server.log
    assert server.files[STATS_FILE].count(b"\r\n") == 3
    assert server.timelines == []


async def test_a_sim_that_never_started_leaves_nothing(server: FakeServer, tmp_path: Path) -> None:
    async with working(server, tmp_path / "sim", replay_log=tmp_path / "none.log") as worker:
        assert await worker == 1
    assert (server.puts, server.timelines) == ([], [])


async def test_a_simulation_leaves_its_files(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKESIM", "fixedfiles")
    accelsim = fake_accelsim(tmp_path / "accelsim")
    trace = make_trace(tmp_path / "trace")
    async with working(server, tmp_path / "sim", trace=trace, accelsim_dir=accelsim, core_clock_mhz=1.0) as worker:
        assert await worker == 0
    assert sorted(server.files) == [
        "accelwattch_power_report.log.gz",
        "gpgpu_inst_stats.txt.gz",
        STATS_FILE,
        LOG_FILE,
    ]
    assert gzip.decompress(server.files["gpgpu_inst_stats.txt.gz"]).startswith(b"written by pid ")
    assert gzip.decompress(server.files[LOG_FILE]) == (CASES / "C01.log").read_bytes()
    # The config's own clock counts, not the one that was given.
    row = server.files[STATS_FILE].split(b"\r\n")[1].split(b",")
    assert float(row[6]) == pytest.approx(int(row[3]) / 1.132)


async def test_wrong_timeline_files_are_a_line_of_the_log_and_no_failure(server: FakeServer, tmp_path: Path) -> None:
    trace = demo_trace(tmp_path / "demo", timeline='{"steps": [{"index": 0,')
    async with working(
        server, tmp_path / "sim", trace=trace, core_clock_mhz=QV100_MHZ, **recording("ok-demo-qv100")
    ) as worker:
        assert await worker == 0
    printed = recording_bytes("ok-demo-qv100")
    assert gzip.decompress(server.files[LOG_FILE]) == printed
    assert server.log.startswith(printed)
    (added,) = server.log.removeprefix(printed).splitlines()
    assert added.startswith(
        b"cascade: No step timeline was made: corrected_timeline.json is no JSON, or only a part of it"
    )
    assert server.timelines == []
    assert server.verdict == {"state": "succeeded", "error": None, "exit_code": 0}


async def test_a_remark_stands_on_a_line_of_its_own(tmp_path: Path) -> None:
    with closing(Spool(tmp_path / "log")) as spool:
        spool.write_line(b"first")
        spool.write(b"no end")
        spool.write_line(b"cascade: x")
    assert spool.path.read_bytes() == b"first\nno end\ncascade: x\n"


async def test_a_stand_in_predicts_nothing(server: FakeServer, tmp_path: Path) -> None:
    trace = demo_trace(tmp_path / "demo", timeline="{")
    async with working(
        server, tmp_path / "sim", trace=trace, core_clock_mhz=1.0, stand_in=True, **recording("ok-demo-qv100")
    ) as worker:
        assert await worker == 0
    assert server.timelines == []
    assert server.log == recording_bytes("ok-demo-qv100")


async def test_cancelled_during_an_upload(server: FakeServer, tmp_path: Path) -> None:
    server.hang_files = asyncio.Event()
    async with working(server, tmp_path / "sim", **recording("ok-demo-qv100")) as worker:
        await until(lambda: bool(server.puts))
        server.cancel = True
        assert await worker == 3
        server.hang_files.set()
    assert (server.files, server.verdict) == ({}, None)


async def test_told_to_stop_during_an_upload_the_verdict_still_counts(server: FakeServer, tmp_path: Path) -> None:
    server.hang_files = asyncio.Event()
    async with working(server, tmp_path / "sim", **recording("ok-demo-qv100")) as worker:
        await until(lambda: bool(server.puts))
        os.kill(os.getpid(), signal.SIGTERM)
        assert await worker == 0
        server.hang_files.set()
    assert server.files == {}
    assert server.verdict == {"state": "succeeded", "error": None, "exit_code": 0}


async def test_a_cancelled_sim_uploads_nothing(server: FakeServer, tmp_path: Path) -> None:
    server.hang = asyncio.Event()
    async with working(server, tmp_path / "sim", **recording("ok-demo-qv100")) as worker:
        await until(lambda: len(server.beats) > 3)
        server.cancel = True
        assert await worker == 3
        server.hang.set()
    assert server.puts == []


async def test_a_server_that_takes_no_file_at_all_gets_the_verdict(server: FakeServer, tmp_path: Path) -> None:
    trace = demo_trace(tmp_path / "demo")
    server.file_faults = {"": [Fault.REFUSE], LOG_FILE: [Fault.TOO_LARGE], STATS_FILE: [Fault.TOO_LARGE]}
    async with working(
        server, tmp_path / "sim", trace=trace, core_clock_mhz=QV100_MHZ, **recording("ok-demo-qv100")
    ) as worker:
        assert await worker == 0
    assert server.puts == [LOG_FILE, STATS_FILE]
    assert server.verdict is not None
