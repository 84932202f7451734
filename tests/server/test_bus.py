import asyncio

from hypothesis import given
from hypothesis import strategies as st

from cascade_server.contract.events import KernelEvent, LogEvent, SimEvent
from cascade_server.contract.models import KernelStat, SimSummary
from cascade_server.contract.states import SimState
from cascade_server.services.bus import (
    KEPT_EVENTS,
    MAX_IDLE,
    MAX_KERNELS,
    MAX_LOG_LINES,
    Bus,
    Event,
    Numbered,
    Published,
    Signal,
    Subscriber,
)


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


def put(subscriber: Subscriber, event: Event) -> None:
    subscriber.put(0, Published(event))


async def drain(subscriber: Subscriber) -> list[Numbered | Signal]:
    out: list[Numbered | Signal] = []
    while True:
        try:
            async with asyncio.timeout(0):
                out.append(await subscriber.get())
        except TimeoutError:
            return out


async def test_only_the_newest_of_a_sim_arrives() -> None:
    subscriber = Subscriber()
    for done in range(5):
        put(subscriber, (sim("a", done)))
        put(subscriber, (sim("b", 10 * done)))
    got = [item.item.event for item in await drain(subscriber) if isinstance(item, Numbered)]
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
                put(subscriber, (log(name, sent[name], count)))
                sent[name] += count
            else:
                take(await drain(subscriber), got)
        take(await drain(subscriber), got)
        assert got == {name: [f"{name}{i}" for i in range(n)] for name, n in sent.items()}

    def take(items: list[Numbered | Signal], got: dict[str, list[str]]) -> None:
        for item in items:
            assert isinstance(item, Numbered)
            assert isinstance(item.item.event, LogEvent)
            got[item.item.event.sim_id] += item.item.event.lines

    asyncio.run(play())


async def test_a_sims_end_does_not_overtake_its_last_kernels() -> None:
    subscriber = Subscriber()
    for event in (sim("a", 0), kernel(0), sim("a", 1), kernel(1), sim("a", 2)):
        put(subscriber, event)
    got = [item.item.event for item in await drain(subscriber) if isinstance(item, Numbered)]
    assert [event.type for event in got] == ["kernel", "kernel", "sim"]


async def test_a_slow_reader_loses_the_oldest_log_lines_and_sees_the_gap() -> None:
    subscriber = Subscriber()
    for at in range(0, 3 * MAX_LOG_LINES, 100):
        put(subscriber, (log("a", at, 100)))
    (item,) = await drain(subscriber)
    assert isinstance(item, Numbered)
    assert isinstance(item.item.event, LogEvent)
    assert item.item.event.seq == 2 * MAX_LOG_LINES
    assert item.item.event.lines[0] == f"a{2 * MAX_LOG_LINES}"
    assert len(item.item.event.lines) == MAX_LOG_LINES


async def test_joining_lines_leaves_other_watchers_events_alone() -> None:
    bus = Bus()
    with bus.subscribe("r") as (one, _, _), bus.subscribe("r") as (other, _, _):
        bus.publish("r", log("a", 0, 2))
        first = await drain(one)
        bus.publish("r", log("a", 2, 2))
        assert [
            i.item.event.lines for i in first if isinstance(i, Numbered) and isinstance(i.item.event, LogEvent)
        ] == [["a0", "a1"]]
        (both,) = await drain(other)
        assert isinstance(both, Numbered)
        assert isinstance(both.item.event, LogEvent)
        assert both.item.event.lines == ["a0", "a1", "a2", "a3"]


async def test_kernels_never_drop_but_too_many_become_a_snapshot() -> None:
    subscriber = Subscriber()
    for index in range(MAX_KERNELS):
        put(subscriber, (kernel(index)))
    assert len(await drain(subscriber)) == MAX_KERNELS
    for index in range(MAX_KERNELS + 1):
        put(subscriber, (kernel(index)))
    assert await drain(subscriber) == [Signal.SNAPSHOT]
    put(subscriber, (kernel(0)))
    assert len(await drain(subscriber)) == 1


async def test_closing_ends_streams_old_and_new() -> None:
    bus = Bus()
    with bus.subscribe("r") as (early, _, _):
        bus.close()
        assert await early.get() is Signal.CLOSED
        assert await early.get() is Signal.CLOSED
    with bus.subscribe("r") as (late, _, _):
        assert await late.get() is Signal.CLOSED


async def numbers(subscriber: Subscriber) -> list[int]:
    return [item.number for item in await drain(subscriber) if isinstance(item, Numbered)]


async def test_a_client_that_comes_back_gets_what_it_missed() -> None:
    bus = Bus()
    with bus.subscribe("r") as first:
        for index in range(5):
            bus.publish("r", kernel(index))
        assert await numbers(first.subscriber) == [1, 2, 3, 4, 5]
    bus.publish("r", kernel(5))
    with bus.subscribe("r", bus.event_id(3)) as back:
        assert back.resumed
        assert await numbers(back.subscriber) == [4, 5, 6]
    with bus.subscribe("r", bus.event_id(6)) as newest:
        assert newest.resumed
        assert await drain(newest.subscriber) == []


async def test_stale_ids_need_a_snapshot() -> None:
    bus = Bus()
    with bus.subscribe("r"):
        for index in range(KEPT_EVENTS + 10):
            bus.publish("r", kernel(index))
    other_epoch = Bus().event_id(5)
    future = bus.event_id(KEPT_EVENTS + 11)
    for stale in (None, "", "x", "-", "-1", other_epoch, future, bus.event_id(9), bus.event_id(5) + "9" * 30):
        with bus.subscribe("r", stale) as place:
            assert not place.resumed, stale
            assert place.number == KEPT_EVENTS + 10
    with bus.subscribe("r", bus.event_id(10)) as place:
        assert place.resumed


async def test_an_id_never_means_two_events_when_a_topic_was_forgotten() -> None:
    bus = Bus()
    with bus.subscribe("r"):
        bus.publish("r", kernel(0))
    old = bus.event_id(1)
    for other in range(MAX_IDLE + 1):
        with bus.subscribe(f"r{other}"):
            pass
    assert not bus.watched("r")
    with bus.subscribe("r") as again:
        bus.publish("r", kernel(0))
        assert await numbers(again.subscriber) == [3]
    with bus.subscribe("r", old) as place:
        assert not place.resumed


@given(st.lists(st.sampled_from(["sim a", "sim b", "kernel", "log", "take", "cut"]), max_size=40))
def test_however_a_client_is_cut_off_it_ends_with_everything(steps: list[str]) -> None:
    async def play() -> None:
        bus = Bus()
        done = {"a": 0, "b": 0}
        kernels = lines = 0
        seen: dict[str, int] = {}
        got_kernels: set[int] = set()
        got_lines: set[int] = set()
        last = ""
        context = bus.subscribe("r")
        place = context.__enter__()

        async def take(most: int) -> None:
            nonlocal last
            for _ in range(most):
                try:
                    async with asyncio.timeout(0):
                        item = await place.subscriber.get()
                except TimeoutError:
                    return
                assert isinstance(item, Numbered)
                event = item.item.event
                last = bus.event_id(item.number)
                if isinstance(event, SimEvent):
                    seen[event.sim.id] = event.sim.kernels_done
                elif isinstance(event, KernelEvent):
                    got_kernels.add(event.stat.kernel_index)
                elif isinstance(event, LogEvent):
                    assert event.seq is not None
                    got_lines.update(range(event.seq, event.seq + len(event.lines)))

        for step in steps:
            if step.startswith("sim"):
                name = step[-1]
                done[name] += 1
                bus.publish("r", sim(name, done[name]))
            elif step == "kernel":
                bus.publish("r", kernel(kernels))
                kernels += 1
            elif step == "log":
                bus.publish("r", log("a", lines, 3))
                lines += 3
            elif step == "take":
                await take(1)
            else:
                context.__exit__(None, None, None)
                context = bus.subscribe("r", last or bus.event_id(0))
                place = context.__enter__()
                assert place.resumed
        await take(1000)
        context.__exit__(None, None, None)
        assert seen == {name: n for name, n in done.items() if n}
        assert got_kernels == set(range(kernels))
        assert got_lines == set(range(lines))

    asyncio.run(play())
