"""kernel-stats.csv against the recordings' right values, and for logs of any kind."""

from __future__ import annotations

import csv
import io
import random
import tempfile
import tracemalloc
from collections.abc import Iterator
from itertools import chain, pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cascade_server.simlog.parser import KernelBlock, LogParser
from cascade_worker.kernel_stats import FIRST, cell_text, write_csv
from cascade_worker.lines import Interrupted, file_lines
from tests.recordings import INDEX, TRUTH, recording_bytes, recording_lines

SUCCESSES = sorted(name for name in INDEX if name.startswith("ok-") and "k400" not in name)


def table(lines: list[str], folder: Path, clock: float | None = None, cuts: list[int] | None = None) -> list[list[str]]:
    """The rows of the table of a log that comes in portions; none when there is no file."""
    edges = [0, *sorted(cuts or []), len(lines)]
    path = folder / "kernel-stats.csv"
    kernels = write_csv((lines[a:b] for a, b in pairwise(edges)), path, clock)
    if not kernels:
        assert not path.exists()
        return []
    rows = read(path.read_bytes())
    assert len(rows) == kernels + 1
    assert {len(row) for row in rows} == {len(rows[0])}
    return rows


def read(data: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(data.decode(), newline="")))


def named(rows: list[list[str]]) -> list[dict[str, str]]:
    """The rows by key, without units."""
    keys = [title.partition(" (")[0] if "(cycle/sec)" not in title else title for title in rows[0]]
    assert len(set(keys)) == len(keys)
    return [dict(zip(keys, row, strict=True)) for row in rows[1:]]


@pytest.mark.parametrize("name", SUCCESSES)
def test_every_statistic_of_every_kernel_is_there(name: str, tmp_path: Path) -> None:
    lines = recording_lines(name)
    rows = table(lines, tmp_path)
    blocks = [event for event in LogParser().feed(lines) if isinstance(event, KernelBlock)]
    order: dict[str, None] = dict.fromkeys(FIRST)
    for block in blocks:
        order |= dict.fromkeys(block.stats())
    found = named(rows)
    assert list(found[0]) == list(order)
    for block, row in zip(blocks, found, strict=True):
        stats = block.stats()
        assert row["kernel_index"] == str(block.kernel_index)
        assert row["kernel_name"] == block.kernel_name
        for key in order.keys() - set(FIRST):
            value = stats.get(key, "")
            assert row[key] == (cell_text(value) if isinstance(value, str) else str(value)), key


def test_the_first_columns_and_their_units(tmp_path: Path) -> None:
    rows = table(recording_lines("ok-demo-qv100"), tmp_path, 1132.0)
    assert rows[0][:8] == [
        "kernel_index",
        "kernel_name",
        "kernel_launch_uid",
        "gpu_sim_cycle (cycles)",
        "gpu_sim_insn (thread instructions)",
        "gpu_ipc (instructions/cycle)",
        "sim_time_ns",
        "cut_short",
    ]
    for title in (
        "gpu_occupancy (%)",
        "L2_BW (GB/Sec)",
        "gpgpu_simulation_rate (inst/sec)",
        "gpgpu_simulation_rate (cycle/sec)",
        "gpgpu_simulation_time (s)",
        "gpgpu_silicon_slowdown (x)",
    ):
        assert title in rows[0]
    for row, truth in zip(rows[1:], TRUTH["ok-demo-qv100"]["kernels"], strict=True):
        assert row[1] == truth["kernel_name"]
        assert int(row[3]) == truth["gpu_sim_cycle"]
        assert int(row[4]) == truth["gpu_sim_insn"]
        assert float(row[5]) == truth["gpu_ipc"]
        assert float(row[6]) == pytest.approx(truth["gpu_sim_cycle"] / 1.132)
        assert row[7] == ""


def test_a_kernel_cut_short_is_marked(tmp_path: Path) -> None:
    for name in ("cut-max-cycle", "cut-max-insn-rtx3070"):
        marks = [row["cut_short"] for row in named(table(recording_lines(name), tmp_path))]
        assert marks[-1] == "yes"
        assert set(marks[:-1]) <= {""}
        (tmp_path / "kernel-stats.csv").unlink()


def test_kernels_at_the_same_time_keep_what_is_printed_or_inferred(tmp_path: Path) -> None:
    rows = named(table(recording_lines("ok-concurrent2-rtx3070"), tmp_path))
    assert [row["kernel_launch_uid"] for row in rows] == ["1 2", "", "4 3", "", "6 5", "5"]


@pytest.mark.parametrize(
    ("name", "kernels"), [("fail-killed", 2), ("fail-no-kernelslist", 0), ("odd-empty-kernelslist", 0)]
)
def test_what_there_is_of_a_failed_sim(name: str, kernels: int, tmp_path: Path) -> None:
    assert len(table(recording_lines(name), tmp_path)[1:]) == kernels


def block(name: str, *pairs: str) -> list[str]:
    return [
        f"kernel_name = {name} ",
        "kernel_launch_uid = 1 ",
        "gpu_sim_cycle = 10",
        *pairs,
        "gpgpu_silicon_slowdown = 5x",
    ]


def test_no_cell_is_a_formula_and_numbers_stay_numbers(tmp_path: Path) -> None:
    (row,) = named(
        table(
            block('=HYPERLINK("http://x","a,b")', "some = -5", "rate = -nan%", "low = -inf", "text = @SUM(A1)"),
            tmp_path,
        )
    )
    assert row["kernel_name"] == """'=HYPERLINK("http://x","a,b")"""
    assert (row["some"], row["rate"], row["low"], row["text"]) == ("-5", "nan", "-inf", "'@SUM(A1)")


def test_names_with_anything_in_them_stay_one_cell(tmp_path: Path) -> None:
    name = 'void f<int, "x">(a\rb\0c\ud800\udcff)'
    (row,) = named(table(block(name), tmp_path))
    assert row["kernel_name"] == 'void f<int, "x">(a\rb\ufffdc\ufffd\ufffd)'


def test_a_key_that_comes_late_is_empty_before(tmp_path: Path) -> None:
    rows = table([*block("a", "one = 1"), *block("b", "two = 2", "one = 3")], tmp_path)
    assert [(row["one"], row["two"]) for row in named(rows)] == [("1", ""), ("3", "2")]


@settings(deadline=None)
@given(text=st.text(st.characters(codec=None), max_size=20))
def test_any_text_is_a_harmless_cell(text: str) -> None:
    cell = cell_text(text)
    cell.encode()
    assert cell in ("-inf", "nan", "inf") or not cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    out = io.StringIO(newline="")
    csv.writer(out).writerow([cell, "end"])
    assert read(out.getvalue().encode()) == [[cell, "end"]]


@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_portions_and_rubbish_change_nothing_or_little(data: st.DataObject) -> None:
    lines = recording_lines("ok-vec4-rtx2060")
    with tempfile.TemporaryDirectory() as folder:
        whole = table(lines, Path(folder))
        cuts = data.draw(st.lists(st.integers(0, len(lines)), max_size=6))
        assert table(lines, Path(folder), cuts=cuts) == whole
        rubbish = data.draw(st.lists(st.text(max_size=20) | st.sampled_from(lines), max_size=4))
        at = data.draw(st.integers(0, len(lines)))
        (Path(folder) / "kernel-stats.csv").unlink()
        table([*lines[:at], *rubbish, *lines[at:]], Path(folder))


# -- from a file ---------------------------------------------------------------------------------


def test_the_lines_of_a_file_up_to_a_size(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\n\xff two\r\n\nthree\ncascade: not printed\n")
    size = len(b"one\n\xff two\r\n\nthr")
    assert list(chain.from_iterable(file_lines(path, size))) == ["one", "\udcff two\r", "", "thr"]
    with pytest.raises(Interrupted):
        list(file_lines(path, size, lambda: True))


def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    lines = recording_lines("ok-k8-rtx3070")

    def peak(times: int) -> int:
        def portions() -> Iterator[list[str]]:
            for _ in range(times):
                yield from (lines[at : at + 2000] for at in range(0, len(lines), 2000))

        tracemalloc.start()
        write_csv(portions(), tmp_path / "out.csv")
        try:
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(2)  # fills the parser's caches
    assert peak(20) < peak(4) + 200_000


def test_random_cuts_of_a_whole_recording(tmp_path: Path) -> None:
    log = recording_bytes("ok-streams2-rtx3070")
    path = tmp_path / "log"
    draw = random.Random(3)
    for _ in range(5):
        path.write_bytes(log[: draw.randrange(len(log))])
        write_csv(file_lines(path, path.stat().st_size), tmp_path / "out.csv")
