"""ElectionState as the quorum-state file holds it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.raft import ElectionState

nodes = st.none() | st.integers(0, 100)


@given(st.builds(ElectionState, st.integers(0, 1 << 30), nodes, nodes))
def test_it_survives_the_file(state: ElectionState) -> None:
    assert ElectionState.from_quorum_state(state.to_quorum_state()) == state


def test_the_fields_are_kafkas() -> None:
    assert ElectionState(3, 2, None).to_quorum_state() == {
        "leaderId": -1,
        "leaderEpoch": 3,
        "votedId": 2,
        "data_version": 0,
    }


@pytest.mark.parametrize(
    ("change", "name"),
    [({"leaderEpoch": -1}, "leaderEpoch"), ({"votedId": "2"}, "votedId"), ({"leaderId": True}, "leaderId")],
)
def test_nonsense_is_named(change: dict[str, object], name: str) -> None:
    with pytest.raises(ValueError, match=f"quorum-state: {name}"):
        ElectionState.from_quorum_state(ElectionState().to_quorum_state() | change)
    with pytest.raises(ValueError, match="leaderEpoch is None"):
        ElectionState.from_quorum_state({})
