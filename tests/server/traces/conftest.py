"""A root folder to put traces in, and its scans."""

from __future__ import annotations

from pathlib import Path

import pytest

from .folders import Rescan


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "root"
    path.mkdir()
    return path


@pytest.fixture
def rescan(root: Path) -> Rescan:
    return Rescan(root)
