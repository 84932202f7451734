import asyncio

from hypothesis import given
from hypothesis import strategies as st

from cascade_server.contract.events import KernelEvent, LogEvent, SimEvent
from cascade_server.contract.models import KernelStat, SimSummary
from cascade_server.contract.states import SimState
from cascade_server.services.bus import MAX_KERNELS, MAX_LOG_LINES, Bus, Published, Signal, Subscriber


def sim(name: str, done: int = 0) -> SimEvent:
    return SimEvent(
        sim=SimSummary.model_validate(
            {
                "id": name,
                "run_id": "r",
                "gpu_config": "c",
                "replica": 0,
                "state": SimState.RUNNING,
                "created_at": "2026-01-01T00:00:00Z",
                "kernels_done": done,
            }
        )
    )


def kernel(index: int) -> KernelEvent:
    return KernelEvent(stat=KernelStat(sim_id="a", kernel_index=index, kernel_name="k"))


def log(name: str, seq: int, count: int) -> LogEvent:
    return LogEvent(sim_id=name, seq=seq, lines=[f"{name}{seq + i}" for i in range(count)])


async def drain(subscriber: Subscriber) -> list[Published | Signal]:
    out: list[Published | Signal] = []
    while True:
        try:
            async with asyncio.timeout(0):
                out.append(await subscriber.get())
        except TimeoutError:
            return out


async def test_only_the_newest_of_a_sim_arrives() -> None:
    subscriber = Subscriber()
    for done in range(5):
        subscriber.put(Published(sim("a", done)))
        subscriber.put(Published(sim("b", 10 * done)))
    got = [item.event for item in await drain(subscriber) if isinstance(item, Published)]
    assert [(e.sim.id, e.sim.kernels_done) for e in got if isinstance(e, SimEvent)] == [("a", 4), ("b", 40)]


@given(st.lists(st.one_of(st.just("get"), st.tuples(st.sampled_from("ab"), st.integers(1, 5))), max_size=60))
def test_log_lines_are_joined_never_doubled_never_reordered(steps: list[str | tuple[str, int]]) -> None:
    async def play() -> None:
        subscriber = Subscriber()
        sent = {"a": 0, "b": 0}
        got: dict[str, list[str]] = {"a": [], "b": []}
        for step in steps:
            if isinstance(step, tuple):
                name, count = step
                subscriber.put(Published(log(name, sent[name], count)))
                sent[name] += count
            else:
                take(await drain(subscriber), got)
        take(await drain(subscriber), got)
        assert got == {name: [f"{name}{i}" for i in range(n)] for name, n in sent.items()}

    def take(items: list[Published | Signal], got: dict[str, list[str]]) -> None:
        for item in items:
            assert isinstance(item, Published)
            assert isinstance(item.event, LogEvent)
            got[item.event.sim_id] += item.event.lines

    asyncio.run(play())


async def test_a_slow_reader_loses_the_oldest_log_lines_and_sees_the_gap() -> None:
    subscriber = Subscriber()
    for at in range(0, 3 * MAX_LOG_LINES, 100):
        subscriber.put(Published(log("a", at, 100)))
    (item,) = await drain(subscriber)
    assert isinstance(item, Published)
    assert isinstance(item.event, LogEvent)
    assert item.event.seq == 2 * MAX_LOG_LINES
    assert item.event.lines[0] == f"a{2 * MAX_LOG_LINES}"
    assert len(item.event.lines) == MAX_LOG_LINES


async def test_joining_lines_leaves_other_watchers_events_alone() -> None:
    bus = Bus()
    with bus.subscribe("r") as one, bus.subscribe("r") as other:
        bus.publish("r", log("a", 0, 2))
        first = await drain(one)
        bus.publish("r", log("a", 2, 2))
        assert [i.event.lines for i in first if isinstance(i, Published) and isinstance(i.event, LogEvent)] == [
            ["a0", "a1"]
        ]
        (both,) = await drain(other)
        assert isinstance(both, Published)
        assert isinstance(both.event, LogEvent)
        assert both.event.lines == ["a0", "a1", "a2", "a3"]


async def test_kernels_never_drop_but_too_many_become_a_snapshot() -> None:
    subscriber = Subscriber()
    for index in range(MAX_KERNELS):
        subscriber.put(Published(kernel(index)))
    assert len(await drain(subscriber)) == MAX_KERNELS
    for index in range(MAX_KERNELS + 1):
        subscriber.put(Published(kernel(index)))
    assert await drain(subscriber) == [Signal.SNAPSHOT]
    subscriber.put(Published(kernel(0)))
    assert len(await drain(subscriber)) == 1


async def test_closing_ends_streams_old_and_new() -> None:
    bus = Bus()
    with bus.subscribe("r") as early:
        bus.close()
        assert await early.get() is Signal.CLOSED
        assert await early.get() is Signal.CLOSED
    with bus.subscribe("r") as late:
        assert await late.get() is Signal.CLOSED
    assert not bus.watched("r")
