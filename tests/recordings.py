"""Recorded logs (`tests/data/recordings`, right values in truth.json) and cases (`tests/data/cases`) for tests."""

from __future__ import annotations

import json
import lzma
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

_DATA = Path(__file__).parent / "data"
RECORDINGS = _DATA / "recordings"
CASES = _DATA / "cases"


class Recording(NamedTuple):
    """A row of index.tsv: how a recording came about."""

    gpu_config: str
    exit_code: int
    wall_s: float | None
    listed_kernels: int | None


def _number(text: str) -> float | None:
    return None if text in ("-", "None", "") else float(text)


def _index() -> dict[str, Recording]:
    rows = [line.split("\t") for line in (RECORDINGS / "index.tsv").read_text().splitlines()[1:]]
    return {
        name: Recording(
            gpu_config, int(exit_code), _number(wall), None if _number(listed) is None else int(float(listed))
        )
        for name, gpu_config, exit_code, wall, listed in rows
    }


INDEX: dict[str, Recording] = _index()
TRUTH: dict[str, Any] = json.loads((RECORDINGS / "truth.json").read_text())
EXPECT: dict[str, Any] = json.loads((CASES / "expect.json").read_text())["cases"]


@lru_cache(maxsize=4)
def recording_bytes(name: str) -> bytes:
    """The log of recording `name` (without suffix), stdout and stderr merged."""
    return lzma.decompress((RECORDINGS / f"{name}.log.xz").read_bytes())


def split_lines(log: bytes) -> list[str]:
    r"""A log's lines as a worker sends them: split at "\n" alone, undecodable bytes as lone surrogates."""
    lines = log.decode("utf-8", "surrogateescape").split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def recording_lines(name: str) -> list[str]:
    """The lines of recording `name`."""
    return split_lines(recording_bytes(name))


def case_lines(case: str) -> list[str]:
    """The lines of `<case>.log`."""
    return split_lines((CASES / f"{case}.log").read_bytes())
