"""The table of transitions: the one in code is the one in the docstring and in docs/internals/raft.md."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

import minikafka.raft.quorum as quorum
from minikafka.config.kinds import voters
from minikafka.raft import ElectionState, RaftNode, VoterSet
from minikafka.raft.core import Core
from minikafka.raft.role import ToLeader, ToUnattached

DOCS = Path(__file__).parents[3] / "docs" / "internals" / "raft.md"
LEGAL = {(source.NAME, target.NAME) for source, targets in quorum.LEGAL_TRANSITIONS.items() for target in targets}


def test_the_docstring_lists_the_legal_transitions() -> None:
    names = "|".join({source for source, _ in LEGAL} | {target for _, target in LEGAL})
    rows = re.findall(rf"^({names}) +({names}) ", quorum.__doc__ or "", re.MULTILINE)
    assert len(rows) == len(set(rows))
    assert set(rows) == LEGAL


def test_the_documentation_lists_the_legal_transitions() -> None:
    rows = re.findall(r"^\| (\w+) \| (\w+) \|", DOCS.read_text(), re.MULTILINE)
    names = {source for source, _ in LEGAL}
    assert {row for row in rows if row[0] in names} == LEGAL


def node(**changes: object) -> RaftNode:
    settings: dict[str, object] = {
        "node_id": 1,
        "cluster_id": "c",
        "voters": VoterSet(voters().parse("1@a:1,2@b:2,3@c:3")),
        "rng": random.Random(1),
        "batch_spans": lambda records: [],
    }
    return RaftNode(Core(**(settings | changes)))  # type: ignore[arg-type]


def test_an_illegal_transition_is_a_programmers_mistake() -> None:
    machine = node()
    machine.start(0)
    with pytest.raises(AssertionError, match="unattached to leader"):
        machine._quorum.switch(ToLeader((1, 2)), 0)


def test_so_is_an_epoch_that_falls_or_a_second_vote() -> None:
    machine = node(election=ElectionState(5, 2))
    machine.start(0)
    with pytest.raises(AssertionError, match="epochs never fall"):
        machine._quorum.switch(ToUnattached(4), 0)
    with pytest.raises(AssertionError, match="a vote is given once"):
        machine._quorum.switch(ToUnattached(5, voted_for=3), 0)


def test_a_node_is_started_once_and_first() -> None:
    machine = node()
    with pytest.raises(AssertionError, match="start"):
        machine.tick(0)
    machine.start(0)
    with pytest.raises(AssertionError, match="started once"):
        machine.start(0)
