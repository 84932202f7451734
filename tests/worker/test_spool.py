"""Lines out of bytes: every byte once, whatever the chunks, and numbers that always mean the same line."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cascade_server.contract.text import line_from_bytes, line_to_bytes
from cascade_worker.lines import LineSplitter
from cascade_worker.spool import Chunk, Spool, SpoolError

CHUNKS = st.lists(
    st.one_of(st.binary(max_size=40), st.sampled_from([b"\n", b"\r\n", b"a" * 70, b"\n\n", b"\xff\x00\x1b[0m"])),
    max_size=30,
)


@contextmanager
def small_spool(**limits: int) -> Iterator[Spool]:
    with tempfile.TemporaryDirectory() as folder, closing(Spool(Path(folder) / "log", **limits)) as spool:
        yield spool


def drain(spool: Spool, seq: int = 0, offset: int = 0) -> list[Chunk]:
    chunks = []
    while chunk := spool.read(seq, offset):
        chunks.append(chunk)
        seq, offset = seq + len(chunk.lines), chunk.end
    return chunks


@given(CHUNKS)
def test_splitter_gives_every_byte_back(chunks: list[bytes]) -> None:
    splitter = LineSplitter()
    lines = [line for chunk in chunks for line in splitter.feed(chunk)]
    assert b"\n".join([*lines, splitter.rest()]) == b"".join(chunks)
    assert splitter.rest() == b""


@given(CHUNKS, st.integers(1, 30))
def test_splitter_with_a_limit_keeps_the_beginning_of_each_line(chunks: list[bytes], limit: int) -> None:
    splitter = LineSplitter(limit)
    lines = [line for chunk in chunks for line in splitter.feed(chunk)]
    assert [*lines, splitter.rest()] == [line[:limit] for line in b"".join(chunks).split(b"\n")]


@settings(deadline=None)
@given(CHUNKS, st.integers(4, 64), st.integers(1, 5))
def test_spool_gives_every_byte_back(chunks: list[bytes], chunk_bytes: int, chunk_lines: int) -> None:
    with small_spool(chunk_bytes=chunk_bytes, chunk_lines=chunk_lines) as spool:
        read: list[Chunk] = []
        for chunk in chunks:
            spool.write(chunk)
            read += drain(spool, sum(len(c.lines) for c in read), read[-1].end if read else 0)
        spool.closed = True
        read += drain(spool, sum(len(c.lines) for c in read), read[-1].end if read else 0)
        lines = [line_to_bytes(line_from_bytes(line)) for chunk in read for line in chunk.lines]
        end = b"" if not lines or read[-1].unterminated else b"\n"
        assert b"\n".join(lines) + end == b"".join(chunks)
        assert all(len(chunk.lines) <= chunk_lines for chunk in read)
        assert not any(chunk.unterminated for chunk in read[:-1])


@settings(deadline=None)
@given(CHUNKS, st.integers(4, 16))
def test_a_line_number_means_the_same_bytes_wherever_one_starts(chunks: list[bytes], max_line: int) -> None:
    with small_spool(chunk_bytes=4, chunk_lines=3, max_line=max_line) as spool:
        spool.write(b"".join(chunks))
        spool.closed = True
        lines = [line for chunk in drain(spool) for line in chunk.lines]
        assert max(map(len, lines), default=0) <= max_line
        for seq in range(len(lines) + 1):
            offset = spool.find(seq)
            assert offset is not None
            assert [line for chunk in drain(spool, seq, offset) for line in chunk.lines] == lines[seq:]
        assert spool.find(len(lines) + 1) is None


def test_a_line_longer_than_the_limit_is_cut_and_others_are_whole() -> None:
    with small_spool(chunk_bytes=8, max_line=32) as spool:
        spool.write(b"x" * 32 + b"\n" + b"y" * 70 + b"\nend\n")
        lines = [line for chunk in drain(spool) for line in chunk.lines]
        assert lines == [b"x" * 32, b"y" * 32, b"y" * 32, b"y" * 6, b"end"]


def test_a_line_without_an_end_waits_until_nothing_more_comes() -> None:
    with small_spool() as spool:
        spool.write(b"whole\nhal")
        assert drain(spool) == [Chunk(0, [b"whole"], 6)]
        assert spool.read(1, 6) is None
        spool.write(b"f")
        spool.closed = True
        assert drain(spool, 1, 6) == [Chunk(1, [b"half"], 10, unterminated=True)]


def test_far_lines_are_found_by_the_index(tmp_path: Path) -> None:
    with closing(Spool(tmp_path / "log")) as spool:
        line = b"%06d" + b"z" * 993 + b"\n"
        for start in range(0, 20_000, 1000):
            spool.write(b"".join(line % number for number in range(start, start + 1000)))
        drain(spool)
        assert spool.find(17_345) == 17_345 * 1000


def test_an_existing_log_is_never_touched(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"precious")
    with pytest.raises(FileExistsError):
        Spool(tmp_path / "log")
    assert (tmp_path / "log").read_bytes() == b"precious"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_a_sentence(tmp_path: Path) -> None:
    with closing(Spool(tmp_path / "log")) as spool:
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, spool._fd)
        os.close(full)
        with pytest.raises(SpoolError, match=r"The disk under .* is full\."):
            spool.write(b"x")
