import itertools

import pytest

from cascade_server.contract.states import FINISHED, RunState, SimState, may_move, run_state

LEGAL = """
pending launching / pending failed / pending cancelled
launching running / launching lost / launching succeeded / launching failed / launching cancelled
running lost / running succeeded / running failed / running cancelled
lost running / lost succeeded / lost failed / lost cancelled
"""


def test_the_legal_moves_are_the_contracts() -> None:
    legal = {tuple(move.split()) for line in LEGAL.strip().splitlines() for move in line.split("/")}
    found = {(a.value, b.value) for a, b in itertools.product(SimState, SimState) if may_move(a, b)}
    assert found == legal


@pytest.mark.parametrize("state", sorted(FINISHED))
def test_finished_states_end(state: SimState) -> None:
    assert state.is_finished
    assert not any(may_move(state, other) for other in SimState)


@pytest.mark.parametrize(
    ("sims", "state"),
    [
        ("pending", "active"),
        ("succeeded lost", "active"),
        ("failed launching", "active"),
        ("succeeded", "succeeded"),
        ("succeeded succeeded", "succeeded"),
        ("succeeded failed", "partial"),
        ("succeeded cancelled", "partial"),
        ("failed failed", "failed"),
        ("failed cancelled", "cancelled"),
        ("cancelled", "cancelled"),
    ],
)
def test_run_state(sims: str, state: str) -> None:
    assert run_state(SimState(word) for word in sims.split()) is RunState(state)
