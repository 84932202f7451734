"""Folders of traces for tests, as users and profilers leave them."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from cascade_server.traces.source_local import TraceScan, scan
from tests.recordings import CASES

KERNEL_HEAD = "-kernel name = _Z1kv\n-kernel id = 1\n-binary version = 80\n"
STATS = "kernel-{i}.trace, _Z1kv, 4, 1, 1, 4, 32, 1, 1, 32, 10,10\n"


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def trace_files(kernels: int = 2, prefix: str = "traces/", **metadata: Any) -> dict[str, str]:
    """A whole trace; metadata.json only when there is something to write in it."""
    files = {f"{prefix}kernel-{i}.traceg": KERNEL_HEAD for i in range(1, kernels + 1)}
    files[f"{prefix}kernelslist.g"] = "MemcpyHtoD,0x1,4\n" + "".join(
        f"kernel-{i}.traceg\n" for i in range(1, kernels + 1)
    )
    files[f"{prefix}stats_ctx_0x1"] = "".join(STATS.format(i=i) for i in range(1, kernels + 1))
    if metadata:
        files["metadata.json"] = json.dumps(metadata)
    return files


def only(found: dict[str, TraceScan]) -> TraceScan:
    (trace,) = found.values()
    return trace


def extract(case: str, root: Path) -> None:
    with tarfile.open(CASES / f"{case}.tar") as tar:
        tar.extractall(root, filter="data")


class Rescan:
    """Scans one root again and again, each time with the result before."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.seen: dict[str, TraceScan] = {}

    def __call__(self) -> TraceScan:
        self.seen = scan(self.root, previous=self.seen)
        return only(self.seen)


def opened_names(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Bare names of the files opened from now on."""
    names: list[str] = []
    real = os.open

    def opened(path: Any, *args: Any, **options: Any) -> int:
        names.append(Path(path).name)
        return real(path, *args, **options)

    monkeypatch.setattr(os, "open", opened)
    return names
