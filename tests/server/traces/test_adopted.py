"""The arch in the head of a kernel file."""

from __future__ import annotations

import lzma
import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascade_server import samples
from cascade_server.traces.adopted import HEAD_BYTES, MAX_HEADS, arch_of_head, archs_of_kernels
from cascade_server.traces.folder import list_folder
from cascade_server.traces.kernelslist import parse_kernelslist
from tests.recordings import CASES, EXPECT

from .folders import opened_names

HEADER = b"-kernel name = k\n-kernel id = 1\n-binary version = 80\n-nvbit version = 1.5.5\n\n"


def test_the_bundled_demo() -> None:
    paths = list((samples.TRACES / samples.DEMO_TRACE / "traces").glob("kernel-*.xz"))
    assert {arch_of_head(path.read_bytes()[:HEAD_BYTES]) for path in paths} == {"sm_70"}


def test_case_c23_header_variants() -> None:
    with tarfile.open(CASES / "C23.tar") as tar:
        files = [file for i in (1, 2, 3, 4) if (file := tar.extractfile(f"t/kernel-{i}.traceg"))]
        archs = [arch_of_head(file.read(HEAD_BYTES)) for file in files]
    want = EXPECT["C23"]
    assert archs[:2] == [f"sm_{kernel['binary']}" for kernel in want["kernels"][:2]]
    assert sorted(set(archs), key=str) == [f"sm_{version}" for version in want["mixed_binary_versions"]]


@pytest.mark.parametrize(
    ("head", "arch"),
    [
        (HEADER, "sm_80"),
        (HEADER.replace(b"\n", b"\r\n"), "sm_80"),
        (HEADER.replace(b" = 80", b"=120"), "sm_120"),
        (HEADER + b"\0\x10\0\0\0", "sm_80"),
        (lzma.compress(HEADER), "sm_80"),
        (lzma.compress(HEADER + os.urandom(1 << 16))[:HEAD_BYTES], "sm_80"),
        (b"", None),
        (b"-kernel name = -binary version = 80\n", None),
        (b"-kernel id = 1\n#traces\n-binary version = 80\n", None),
        (b"-kernel id = 1\n\0-binary version = 80\n", None),
        (b"-binary version = x\n", None),
        (lzma.compress(HEADER)[:20], None),
        (b"\xfd7zXZ\0garbage" * 10, None),
    ],
)
def test_heads(head: bytes, arch: str | None) -> None:
    assert arch_of_head(head) == arch


def test_the_archs_of_a_list_oldest_first(tmp_path: Path) -> None:
    for i, version in ((1, 90), (2, 60), (3, 90), (4, 120)):
        (tmp_path / f"kernel-{i}.traceg").write_bytes(HEADER.replace(b"80", str(version).encode()))
    names = "".join(f"kernel-{i}.traceg\n" for i in range(1, 6))
    assert archs_of_kernels(list_folder(tmp_path), "", parse_kernelslist(names)) == ["sm_60", "sm_90", "sm_120"]
    assert archs_of_kernels(list_folder(tmp_path), "", parse_kernelslist(names + "kernel-1;\n")) == []
    assert archs_of_kernels(list_folder(tmp_path), "", parse_kernelslist("")) == []


def test_of_a_long_list_a_few_kernels_are_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(1000):
        (tmp_path / f"kernel-{i}.traceg").write_bytes(HEADER)
    folder = list_folder(tmp_path)
    opened = opened_names(monkeypatch)
    listed = parse_kernelslist("".join(f"kernel-{i}.traceg\n" for i in range(1000)))
    assert archs_of_kernels(folder, "", listed) == ["sm_80"]
    assert MAX_HEADS // 2 <= len(opened) <= MAX_HEADS


def test_a_bomb_yields_no_more_than_a_head() -> None:
    assert arch_of_head(lzma.compress(b"\n" * (64 << 20) + HEADER)[:HEAD_BYTES]) is None


@given(st.binary() | st.binary().map(lambda tail: b"\xfd7zXZ\0" + tail))
def test_garbage_never_raises(head: bytes) -> None:
    arch_of_head(head)
