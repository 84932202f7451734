import json

from hypothesis import given
from hypothesis import strategies as st

from cascade_server.contract.models import LogChunk
from cascade_server.contract.text import display_text, line_from_bytes, line_to_bytes


@given(st.binary())
def test_any_bytes_travel_exactly(raw: bytes) -> None:
    line = line_from_bytes(raw.replace(b"\n", b""))
    chunk = LogChunk.model_validate(json.loads(json.dumps({"seq": 0, "lines": [line]})))
    assert line_to_bytes(chunk.lines[0]) == raw.replace(b"\n", b"")


@given(st.text(st.characters()))
def test_any_string_can_be_stored_and_shown(line: str) -> None:
    line_to_bytes(line)
    shown = display_text(line)
    shown.encode()
    assert len(shown) == len(line)
