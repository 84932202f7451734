"""`cascade serve` as a process: start, refusal, stop."""

from __future__ import annotations

import asyncio
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cascade_server import __version__
from cascade_server.contract.client import CascadeClient, Unauthorized
from cascade_server.contract.events import SnapshotEvent
from cascade_server.contract.models import RunCreate, RunEntry
from cascade_server.contract.states import SimState
from tests.processes import environment, server_process, worker_processes


def cascade(data_dir: Path, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cascade_server", *words],
        env=environment(data_dir, **settings),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_version(tmp_path: Path) -> None:
    assert cascade(tmp_path, "--version").stdout == f"cascade {__version__}\n"


@pytest.mark.parametrize("command", ["serve", "up", "down", "tui", "worker"])
def test_every_option_has_a_help_line_and_a_variable(tmp_path: Path, command: str) -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "cascade_server", command, "--help"],
        env=environment(tmp_path) | {"COLUMNS": "400", "NO_COLOR": "1", "TERM": "dumb"},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    ).stdout
    options = [line for line in shown.splitlines() if line.startswith("│ --") and "--help" not in line]
    assert options
    for line in options:
        assert "[env var: CASCADE_" in line, line


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_it_stops_cleanly_with_open_streams_and_running_sims(tmp_path: Path, number: signal.Signals) -> None:
    async with server_process(tmp_path, replay_speed="1", max_local_sims="2") as server, server.client() as client:
        entries = [RunEntry(gpu_config="SM7_QV100", count=2)]
        run = await client.create_run(RunCreate(trace_id="demo-sm70", entries=entries))
        streams = [client.run_events(run.id) for _ in range(5)]
        for stream in streams:
            assert isinstance(await anext(stream), SnapshotEvent)
        while any(sim.state is not SimState.RUNNING for sim in (await client.run(run.id)).sims):
            await asyncio.sleep(0.05)
        began = time.monotonic()
        assert await server.stop(number) == 0
        assert time.monotonic() - began < 5
        # Sims go on without a server.
        left = worker_processes(tmp_path)
        assert len(left) == 2, [(p.ppid(), p.pid, p.environ()["CASCADE_SIM_ID"]) for p in left]


async def test_the_token_is_made_kept_and_needed(tmp_path: Path) -> None:
    async with server_process(tmp_path, token="") as server:
        path = tmp_path / "token"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600
        token = path.read_text().strip()
        assert len(token) >= 32
        async with CascadeClient(server.url, token) as client:
            await client.runs()
        async with CascadeClient(server.url, token + "x") as client:
            with pytest.raises(Unauthorized):
                await client.runs()
        await server.stop()
        await server.start()
        assert path.read_text().strip() == token


async def test_two_servers_on_one_folder_are_refused(tmp_path: Path) -> None:
    async with server_process(tmp_path):
        second = await asyncio.to_thread(cascade, tmp_path, "serve")
    assert second.returncode == 1
    assert "Another server runs on" in second.stderr
    assert "Traceback" not in second.stderr


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"host": "0.0.0.0", "no_auth": "1"}, "Refusing to listen on 0.0.0.0 without a token check"),
        ({"port": "99999"}, "port: Input should be less than or equal to 65535"),
        ({"simulator": "accelsim"}, "needs CASCADE_ACCELSIM_DIR"),
        ({"accelsim_dir": "/nonexistent"}, "holds no folder gpu-simulator"),
        ({"replay_log": "/nonexistent"}, "is no file"),
        ({"traces": "s3://bucket"}, "is no folder"),
        ({"host": "203.0.113.1"}, "Can't listen on 203.0.113.1"),
    ],
)
def test_settings_that_cannot_work_are_refused_with_a_sentence(
    tmp_path: Path, settings: dict[str, str], sentence: str
) -> None:
    done = cascade(tmp_path, "serve", **settings)
    assert done.returncode == 1
    assert sentence in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr


async def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    async with server_process(tmp_path / "one") as server:
        port = server.url.rpartition(":")[2]
        second = await asyncio.to_thread(cascade, tmp_path / "two", "serve", port=port)
    assert second.returncode == 1
    assert f"Port {port} on 127.0.0.1 is taken" in second.stderr


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "can't be used: Not a directory" in cascade(tmp_path / "file" / "x", "serve").stderr.replace("\n", " ")


def test_the_toml_file_is_read_and_the_environment_wins(tmp_path: Path) -> None:
    from cascade_server.settings import Settings

    (tmp_path / "server.toml").write_text('port = 8123\nworkspace = "file"\n')
    code = "from cascade_server.settings import Settings as S; s = S(); print(s.port, s.workspace)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(tmp_path, settings=str(tmp_path / "server.toml"), workspace="env", port=""),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "8123 env\n"
    readme = (Path(__file__).parent.parent / "README.md").read_text()
    for name in Settings.model_fields:
        assert f"| `CASCADE_{name.upper()}` |" in readme
