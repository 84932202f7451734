import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascade_server.contract.sse import KEEPALIVE, Decoder, ServerSentEvent, encode

TEXT = st.text(st.characters(codec="utf-8"))
FIELD = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), min_size=1)


def decode(*chunks: bytes) -> list[ServerSentEvent]:
    decoder = Decoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({min(p, len(data)) for p in places} | {0, len(data)})
    return [data[a:b] for a, b in itertools.pairwise(ends)]


@given(st.lists(st.tuples(TEXT, FIELD, FIELD), max_size=5), st.lists(st.integers(0, 500)))
def test_what_was_encoded_comes_back_whatever_the_cuts(events: list[tuple[str, str, str]], places: list[int]) -> None:
    stream = b"".join(KEEPALIVE + encode(data, event=event, id=number) for data, event, number in events)
    expected = [
        ServerSentEvent(data.replace("\r\n", "\n").replace("\r", "\n"), event, number) for data, event, number in events
    ]
    assert decode(*cut(stream, places)) == expected


@given(st.binary(max_size=300), st.lists(st.integers(0, 300)))
def test_garbage_never_raises_and_cuts_never_matter(stream: bytes, places: list[int]) -> None:
    assert decode(*cut(stream, places)) == decode(stream)


def test_the_standards_examples() -> None:
    assert decode(b"\xef\xbb\xbfdata: YHOO\ndata: +2\ndata: 10\n\n") == [ServerSentEvent("YHOO\n+2\n10")]
    stream = b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n"
    assert decode(stream) == [
        ServerSentEvent("first event", id="1"),
        ServerSentEvent("second event"),
        ServerSentEvent(" third event"),
    ]
    assert decode(b"data\n\ndata\ndata\n\ndata:") == [ServerSentEvent(""), ServerSentEvent("\n")]
    assert decode(b"data:test\r\n\r\ndata: test\r\rdata: x\n\n") == [ServerSentEvent(d) for d in ("test", "test", "x")]


def test_a_line_of_megabytes() -> None:
    data = "x" * 5_000_000
    stream = encode(data)
    assert decode(*(stream[i : i + 65536] for i in range(0, len(stream), 65536))) == [ServerSentEvent(data)]


@pytest.mark.parametrize("bad", ["a\nb", "a\rb", "a\0b"])
def test_fields_that_would_end_early_are_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="can't hold"):
        encode("data", event=bad)
    with pytest.raises(ValueError, match="can't hold"):
        encode("data", id=bad)
