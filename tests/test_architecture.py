"""The import rules of the three packages, proved by importing in fresh interpreters."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("cascade_server", "cascade_worker", "cascade_tui")
MAX_LINES = 400


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path) -> set[str]:
    """Absolute names of all modules that a file imports, wherever in it."""
    found = set()
    package = name_of(path) if path.name == "__init__.py" else name_of(path).rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base]) if base else ".".join(above)
            found |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return found


def loaded_by(module: str) -> set[str]:
    code = f"import sys, {module}; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(out.stdout.split())


def within(names: set[str], package: str) -> set[str]:
    return {name for name in names if name == package or name.startswith(package + ".")}


def test_the_contract_stands_alone() -> None:
    loaded: set[str] = set()
    for path in modules("cascade_server/contract"):
        loaded |= loaded_by(name_of(path))
    ours = {name for package in PACKAGES for name in within(loaded, package)}
    assert ours - within(ours, "cascade_server.contract") == {"cascade_server"}
    assert not loaded & {"aiosqlite", "textual", "boto3", "typer", "aiohttp.web", "pydantic_settings"}


@pytest.mark.parametrize(
    ("package", "allowed"),
    [
        # The worker reads the same log by the same rules; the parser is pure and imports nothing but itself.
        ("cascade_worker", ("cascade_server.contract", "cascade_server.simlog")),
        ("cascade_tui", ("cascade_server.contract",)),
    ],
)
def test_worker_and_tui_import_of_the_server_only_what_is_pure(package: str, allowed: tuple[str, ...]) -> None:
    for path in modules(package):
        foreign = {n for other in PACKAGES if other != package for n in within(imports_of(path), other)}
        version = foreign & {"cascade_server", "cascade_server.__version__"}
        assert foreign == version.union(*(within(foreign, name) for name in allowed)), path


def test_the_server_imports_neither() -> None:
    for path in modules("cascade_server"):
        assert not within(imports_of(path), "cascade_worker") | within(imports_of(path), "cascade_tui"), path
    assert not within(loaded_by("cascade_server.app"), "cascade_worker")
    assert "textual" not in loaded_by("cascade_server.app")


def test_services_and_db_know_no_http_server() -> None:
    for folder in ("services", "db", "simlog", "traces", "configs", "launchers"):
        for path in modules(f"cascade_server/{folder}"):
            assert not any(n.startswith("aiohttp") for n in imports_of(path)), path


def test_routes_hold_no_sql() -> None:
    for path in modules("cascade_server/routes"):
        assert not within(imports_of(path), "aiosqlite") | within(imports_of(path), "sqlite3"), path
        assert not within(imports_of(path), "cascade_server.db"), path


def test_only_the_lifecycle_changes_states() -> None:
    for path in modules("cascade_server"):
        if path.name not in ("lifecycle.py", "sims.py"):
            assert '"state":' not in path.read_text(encoding="utf-8"), path


def test_the_parser_is_pure() -> None:
    for path in modules("cascade_server/simlog"):
        foreign = {n for n in imports_of(path) if n.split(".")[0] not in sys.stdlib_module_names}
        assert all(n.startswith("cascade_server.simlog") for n in foreign), path


def test_one_module_imports_plotext() -> None:
    users = [p for package in PACKAGES for p in modules(package) if within(imports_of(p), "plotext")]
    assert [p.relative_to(ROOT).as_posix() for p in users] == ["cascade_tui/widgets/chart.py"]


def test_a_worker_starts_light() -> None:
    loaded = loaded_by("cascade_worker")
    assert not loaded & {"aiohttp", "textual", "aiosqlite", "pydantic"}


@pytest.mark.parametrize("package", PACKAGES)
def test_modules_stay_small(package: str) -> None:
    assert [p.name for p in modules(package) if len(p.read_text(encoding="utf-8").splitlines()) > MAX_LINES] == []
