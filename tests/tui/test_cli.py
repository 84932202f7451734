"""The command `cascade tui`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import platformdirs
import pytest
import typer
from typer.testing import CliRunner

from cascade_tui import cli


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.callback()(lambda: None)
    cli.register(app)
    return app


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str | None]]:
    """What would have been run."""
    calls: list[tuple[str, str | None]] = []

    def run_tui(url: str, token: str | None) -> int:
        calls.append((url, token))
        return 0

    monkeypatch.setattr(cli, "run_tui", run_tui)
    return calls


def test_importing_it_is_light() -> None:
    code = (
        "import cascade_tui.cli, sys; sys.exit(bool({'textual', 'plotext', 'aiohttp', 'pydantic'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_every_option_has_help_and_a_variable(app: typer.Typer) -> None:
    out = CliRunner().invoke(app, ["tui", "--help"], env={"COLUMNS": "200"}).output
    for wanted in (
        "--url",
        "CASCADE_URL",
        "http://127.0.0.1:8000",
        "--token-file",
        "CASCADE_TOKEN_FILE",
        "CASCADE_TOKEN ",
    ):
        assert wanted in out.replace("]", " ")


def test_defaults(app: typer.Typer, runs: list[tuple[str, str | None]], tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    result = CliRunner().invoke(app, ["tui"], env={"CASCADE_DATA_DIR": str(tmp_path)})
    assert result.exit_code == 0
    assert runs == [("http://127.0.0.1:8000", "secret")]


def test_no_token_anywhere(app: typer.Typer, runs: list[tuple[str, str | None]], tmp_path: Path) -> None:
    CliRunner().invoke(app, ["tui", "--url", "http://host:1"], env={"CASCADE_DATA_DIR": str(tmp_path)})
    assert runs == [("http://host:1", None)]


def test_the_token_comes_from_the_environment_first(
    app: typer.Typer, runs: list[tuple[str, str | None]], tmp_path: Path
) -> None:
    file = tmp_path / "mine"
    file.write_text("from the file")
    CliRunner().invoke(app, ["tui"], env={"CASCADE_TOKEN_FILE": str(file), "CASCADE_URL": "http://u"})
    CliRunner().invoke(app, ["tui", "--token-file", str(file)], env={"CASCADE_TOKEN": "from env"})
    assert runs == [("http://u", "from the file"), ("http://127.0.0.1:8000", "from env")]


def test_a_token_file_that_cant_be_read(app: typer.Typer, runs: list[tuple[str, str | None]], tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["tui", "--token-file", str(tmp_path / "none")])
    assert result.exit_code == 2
    assert "can't be read" in result.output
    assert runs == []


def test_where_the_token_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CASCADE_DATA_DIR", raising=False)
    assert cli.token_path() == platformdirs.user_data_path("cascade") / "token"
