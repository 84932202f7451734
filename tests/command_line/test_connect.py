"""Which server, which token, and what is said when neither fits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cascade_server import datadir
from cascade_server.command_line import connect
from cascade_server.command_line.errors import USAGE, Stop
from tests.command_line.commands import cascade
from tests.servers import TOKEN, Running

NOWHERE = "http://127.0.0.1:1"

COMMANDS = [
    ["traces"],
    ["trace", "x"],
    ["configs"],
    ["runs"],
    ["run", "create", "x", "--on", "SM7_QV100"],
    ["run", "create", "x"],
    ["run", "show", "last"],
    ["run", "watch", "run-ffffffffffff"],
    ["run", "cancel", "last"],
    ["run", "compare", "run-ffffffffffff"],
    ["run", "accuracy", "run-ffffffffffff"],
    ["run", "export", "run-ffffffffffff"],
    ["sim", "log", "sim-ffffffffffff", "--follow"],
    ["sim", "files", "sim-ffffffffffff"],
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
async def test_a_server_that_is_away_is_3(words: list[str]) -> None:
    done = await cascade(NOWHERE, *words)
    assert (done.code, done.out) == (3, "")
    assert (
        done.err
        == "cascade: No server answers on 127.0.0.1:1 (Connection refused): is it running, and is --url right?\n"
    )


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
async def test_a_wrong_token_is_1(server: Running, words: list[str]) -> None:
    done = await cascade(server.url, *words, CASCADE_TOKEN="wrong")
    assert (done.code, done.out) == (1, "")
    assert "token" in done.err
    assert "CASCADE_TOKEN" in done.err
    assert "wrong" not in done.err.replace("The token is wrong.", "")


async def test_the_token_from_a_file(server: Running, tmp_path: Path) -> None:
    path = tmp_path / "mine"
    path.write_text(f"{TOKEN}\n")
    assert (await cascade(server.url, "runs", "--token-file", str(path), CASCADE_TOKEN="")).code == 0
    assert (await cascade(server.url, "runs", CASCADE_TOKEN_FILE=str(path), CASCADE_TOKEN="")).code == 0


async def test_what_answers_is_no_cascade_server(server: Running) -> None:
    done = await cascade(server.url + "/docs", "runs")
    assert done.code in (1, 3)
    assert len(done.err.splitlines()) == 1


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CASCADE_DATA_DIR", str(tmp_path / "here"))
    return tmp_path / "here"


def test_nothing_here_is_the_default_and_makes_no_folder(here: Path) -> None:
    assert connect.find(None, None) == connect.Where("http://127.0.0.1:8000", None)
    assert not here.exists()


def test_the_server_that_runs_here_is_found_with_its_token(here: Path) -> None:
    with datadir.locked(here):
        (here / "server.json").write_text(json.dumps({"url": "http://127.0.0.1:4711", "pid": 1}))
        datadir.token_path(here).write_text("made-here\n")
        # flock is per open file: the lock of this very process counts as another's.
        assert connect.find(None, None) == connect.Where("http://127.0.0.1:4711", "made-here")
    assert connect.find(None, None).url == "http://127.0.0.1:8000"


def test_this_machines_token_goes_nowhere_else(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here.mkdir()
    datadir.token_path(here).write_text("made-here")
    for url in ("http://127.0.0.1:9", "http://localhost:9/", "http://[::1]:9"):
        assert connect.find(url, None).token == "made-here"
    assert connect.find("http://gpu-box:8000", None).token is None
    assert connect.find("https://127.0.0.1.example.org", None).token is None
    monkeypatch.setenv("CASCADE_TOKEN", " given ")
    assert connect.find("http://gpu-box:8000", None).token == "given"


def test_a_token_set_in_the_servers_file_serves_here(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here.mkdir()
    (here / "server.toml").write_text('token = "from-toml"\n')
    monkeypatch.setenv("CASCADE_SETTINGS", str(here / "server.toml"))
    assert connect.find("http://127.0.0.1:9", None).token == "from-toml"


def test_settings_that_are_broken_do_not_show_the_token(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here.mkdir()
    (here / "server.toml").write_text('token = "secret-word"\nport = "x"\n')
    monkeypatch.setenv("CASCADE_SETTINGS", str(here / "server.toml"))
    with pytest.raises(Stop, match="port") as caught:
        connect.find(None, None)
    assert caught.value.code == USAGE
    assert "secret-word" not in str(caught.value)
    monkeypatch.setenv("CASCADE_TOKEN", "given")
    assert connect.find("http://box:1", None).token == "given"


def test_a_token_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CASCADE_TOKEN", "a\r\nX-Evil: 1")
    with pytest.raises(Stop):
        connect.find("http://box:1", None)


# -- the commands as they are declared -----------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [c[:2] if c[0] in ("run", "sim") else ["trace", "show"] if c[0] == "trace" else c[:1] for c in COMMANDS],
    ids=" ".join,
)
async def test_every_option_has_a_help_line_and_a_variable(words: list[str]) -> None:
    shown = (await cascade(None, *words, "--help", COLUMNS="400", NO_COLOR="1", TERM="dumb")).out
    options = [line for line in shown.splitlines() if line.startswith("│ --") and "--help" not in line]
    assert len(options) >= 2
    for line in options:
        assert "[env var: CASCADE_" in line, line
    assert "Exit codes: 0" in shown


def test_declaring_them_needs_no_more_than_typer() -> None:
    code = "import sys, cascade_server.cli; print(*sys.modules)"
    env = {name: value for name, value in os.environ.items() if not name.startswith("CASCADE_")}
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env).stdout
    heavy = {"pydantic", "aiohttp", "rich.table", "cascade_server.contract", "asyncio", "platformdirs"}
    assert not heavy & set(loaded.split())
