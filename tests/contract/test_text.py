import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascade_server.contract.models import LogChunk
from cascade_server.contract.text import display_text, line_from_bytes, line_to_bytes, may_demangle


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


@pytest.mark.parametrize(
    "name", ["_Z6vecaddPKfS0_Pfi", "_Z11copy_kernelI6float4EvPKT_PS1_i", "_Z8mlp_gemmILi0EEvPKfS1_Pfi"]
)
def test_real_names_may_be_demangled(name: str) -> None:
    assert may_demangle(name)


def bomb(levels: int) -> str:
    """A name whose every part is made of the part before it, twice."""
    digits = ["", *"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"]
    parts = "".join(f"1aIS{digits[n]}_S{digits[n]}_E" for n in range(levels))
    return f"_Z1f1aI1b1cE{parts}"


@pytest.mark.parametrize("name", ["", "vecadd", "_Zü", "_Z1a\0", "_Z" + "1a" * 3000, bomb(30)])
def test_other_names_stay_as_they_are(name: str) -> None:
    assert not may_demangle(name)
