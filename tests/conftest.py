"""Pins what the environment would change, before Textual is imported; the option that rewrites golden pictures."""

from __future__ import annotations

import os
import tempfile
import time

import pytest

for _name in [name for name in os.environ if name.startswith(("TEXTUAL_", "CASCADE_", "XDG_"))]:
    del os.environ[_name]
for _name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TERM_PROGRAM"):
    os.environ.pop(_name, None)
_HOME = tempfile.TemporaryDirectory(prefix="cascade-tests-home-")
os.environ.update(
    HOME=_HOME.name,
    TZ="UTC",
    COLORTERM="truecolor",
    TERM="xterm-256color",
    TEXTUAL_ANIMATIONS="none",
    TEXTUAL_COLOR_SYSTEM="truecolor",
)
time.tzset()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that rewrites golden pictures instead of comparing with them."""
    parser.addoption(
        "--update-screenshots",
        action="store_true",
        help="Rewrite screenshots/*.svg from the scenes in tests/tui/scenes.py; look at them before you commit.",
    )
