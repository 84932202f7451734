"""The recording comes out whole, and at the pace it was made."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest

from cascade_worker.replay import RecordingInfo, Replay, recording_info
from cascade_worker.source import SourceError
from tests.recordings import INDEX, RECORDINGS, recording_bytes


class Clock:
    """Time that passes only in `sleep`; notes what was printed when."""

    def __init__(self) -> None:
        self.now = 0.0
        self.printed: list[tuple[float, bytes]] = []

    async def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds
        await asyncio.sleep(0)

    def sink(self, data: bytes) -> None:
        self.printed.append((self.now, data))

    def time(self) -> float:
        return self.now

    @property
    def log(self) -> bytes:
        return b"".join(data for _, data in self.printed)

    def times(self, start: bytes) -> list[float]:
        """When each line with this start came."""
        return [at for at, data in self.printed for line in data.split(b"\n") if line.startswith(start)]


async def play(name: str, speed: float, *, wall: bool = True) -> Clock:
    clock = Clock()
    replay = Replay(
        RECORDINGS / f"{name}.log.xz",
        speed=speed,
        exit_code=7,
        wall_s=INDEX[name].wall_s if wall else None,
        sleep=clock.sleep,
        clock=clock.time,
    )
    assert await replay.run(clock.sink) == 7
    assert clock.log == recording_bytes(name)
    return clock


@pytest.mark.parametrize("name", sorted(INDEX))
async def test_all_of_every_recording_in_the_time_it_took(name: str) -> None:
    clock = await play(name, 1.0)
    assert clock.now == pytest.approx(INDEX[name].wall_s or clock.now, rel=0.01, abs=0.06)


@pytest.mark.parametrize("name", ["ok-demo-qv100", "fail-killed"])
async def test_as_fast_as_possible_never_sleeps(name: str) -> None:
    assert (await play(name, 0.0)).now == 0.0


async def test_faster_by_the_factor() -> None:
    assert (await play("ok-demo-qv100", 10.0)).now == pytest.approx(5.59, abs=0.1)


async def test_blocks_come_when_they_came_and_thread_blocks_move_between() -> None:
    clock = await play("ok-demo-qv100", 1.0)
    blocks = clock.times(b"gpgpu_silicon_slowdown")
    # The recording tells whole seconds 3, 9, 11, 14, 23, … of 55.9.
    assert blocks[:5] == pytest.approx([3.5, 9.5, 11.5, 14.5, 23.5], abs=0.2)
    issued = clock.times(b"thread block = ")
    first = [at for at in issued if at <= blocks[0]]
    assert len(first) == 32
    steps = [later - earlier for earlier, later in pairwise(first)]
    assert max(steps) < 0.2
    assert len(set(first)) == 32
    assert first[-1] < blocks[0]


async def test_steps_are_fine_where_the_log_is() -> None:
    clock = await play("ok-waves-rtx3070", 1.0)
    moments = sorted({at for at, _ in clock.printed})
    silent = [b - a for a, b in pairwise(moments)]
    # Two kernels, each silent after its last thread block started; else never more than a tenth of a second.
    assert len([step for step in silent if step > 0.1]) <= 2


async def test_kernels_of_one_second_do_not_all_come_at_once() -> None:
    clock = await play("ok-streams2-rtx3070", 1.0)
    blocks = clock.times(b"gpgpu_silicon_slowdown")
    assert len(set(blocks)) == 6


async def test_pace_without_an_index_is_that_of_the_blocks() -> None:
    clock = await play("ok-demo-qv100", 1.0, wall=False)
    assert clock.now == pytest.approx(55.5, abs=0.1)


async def test_a_recording_that_is_missing_or_damaged_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="There is no recording"):
        await Replay(tmp_path / "none.log", speed=0, exit_code=0).run(lambda data: None)
    whole = (RECORDINGS / "ok-vec4-qv100.log.xz").read_bytes()
    for number, broken in enumerate([b"no xz at all", whole[:-200]]):
        path = tmp_path / f"{number}.log.xz"
        path.write_bytes(broken)
        for speed in (0.0, 1.0):
            with pytest.raises(SourceError, match=r"The recording .* is damaged"):
                await Replay(path, speed=speed, exit_code=0).run(lambda data: None)


async def test_plain_logs_replay_too(tmp_path: Path) -> None:
    (tmp_path / "mine.log").write_bytes(b"thread block = 0,0,0\nhalf")
    clock = Clock()
    replay = Replay(tmp_path / "mine.log", speed=1, exit_code=0, wall_s=2.0, sleep=clock.sleep, clock=clock.time)
    assert await replay.run(clock.sink) == 0
    assert (clock.log, clock.now) == (b"thread block = 0,0,0\nhalf", 2.0)


def test_info_of_a_recording(tmp_path: Path) -> None:
    assert recording_info(RECORDINGS / "fail-killed.log.xz") == RecordingInfo("SM86_RTX3070", 137, 2.0, 8)
    assert recording_info(RECORDINGS / "fail-huge-shmem.log.xz").listed_kernels is None
    assert recording_info(RECORDINGS / "fail-unwritable-cwd.log.xz").wall_s is None
    assert recording_info(RECORDINGS / "unknown.log") == RecordingInfo()
    assert recording_info(tmp_path / "alone.log") == RecordingInfo()
    (tmp_path / "index.tsv").write_bytes(b"name\texit_code\nalone\n\xff")
    assert recording_info(tmp_path / "alone.log") == RecordingInfo()
