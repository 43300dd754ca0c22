"""Which rule a number means: each node counts its own."""

from __future__ import annotations

import pytest
import typer

from minikafka.chaos.layout import ClusterError
from minikafka.cli.faults import nodes_of_rule

FETCH, PRODUCE = "Fetch is not answered", "Produce is not answered"
KNOWN = {
    1: [f"rule 1: {PRODUCE}", f"rule 2: {FETCH}, 3 more times"],
    2: ["the disk is full", f"rule 1: {FETCH}", f"rule 2: {FETCH}, once more", f"rule 3: {PRODUCE}"],
    3: [],
}


def test_a_rule_is_taken_away_where_it_is() -> None:
    """It was an error if one node had met it often enough, and others kept it."""
    assert nodes_of_rule(2, KNOWN, are_chosen=False) == [1, 2]
    assert nodes_of_rule(3, KNOWN, are_chosen=False) == [2]
    assert nodes_of_rule(1, {1: KNOWN[1]}, are_chosen=True) == [1]


def test_a_number_of_two_rules_is_asked_back() -> None:
    """Both were taken away."""
    with pytest.raises(typer.BadParameter, match=r"--node N: at node 1 rule 1: Produce .*; at node 2 rule 1: Fetch"):
        nodes_of_rule(1, KNOWN, are_chosen=False)


@pytest.mark.parametrize(("nodes", "where"), [([1, 2, 3], ";"), ([3], " at node 3;")])
def test_a_rule_that_is_nowhere_is_told(nodes: list[int], where: str) -> None:
    with pytest.raises(ClusterError, match=f"there is no rule 4{where}"):
        nodes_of_rule(4, {node: KNOWN[node] for node in nodes}, are_chosen=len(nodes) == 1)
