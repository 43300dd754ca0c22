"""ListGroups and DescribeGroups."""

from __future__ import annotations

import pytest
from groups_driver import Driver

from minikafka.wire.codec import encode
from minikafka.wire.messages.describe_groups import DescribeGroupsResponse
from minikafka.wire.messages.list_groups import ListGroupsResponse


@pytest.fixture
def three(driver: Driver) -> Driver:
    """A stable, an empty and a rebalancing group."""
    driver.stable("a", group="stable")
    driver.commit({("t", 0): 1}, group="empty")
    driver.join("a", group="joining")
    return driver


@pytest.mark.parametrize(
    ("states", "types", "expected"),
    [
        ([], [], {"stable", "empty", "joining"}),
        (["Stable"], [], {"stable"}),
        (["stable", "EMPTY"], ["Classic"], {"stable", "empty"}),
        (["Dead", "no such state"], [], set()),
        ([], ["consumer"], set()),
        ([], ["consumer", "classic"], {"stable", "empty", "joining"}),
    ],
)
def test_groups_are_listed_by_state_and_type(
    three: Driver, states: list[str], types: list[str], expected: set[str]
) -> None:
    looked_at = list(three.coordinator.list_groups(states, types))
    assert len(looked_at) == 3
    listed = list(filter(None, looked_at))
    assert {group.group_id for group in listed} == expected
    for version in range(6):
        encode(ListGroupsResponse(groups=listed), version)


def test_descriptions(three: Driver) -> None:
    described = [three.coordinator.describe_group(name) for name in ("stable", "empty", "joining", "unknown")]
    assert [(group.group_state, group.protocol_type, group.protocol_data) for group in described] == [
        ("Stable", "consumer", "range"),
        ("Empty", "", ""),
        ("CompletingRebalance", "consumer", ""),
        ("Dead", "", ""),
    ]
    assert [(member.member_metadata, member.member_assignment) for member in described[0].members] == [
        (b"meta", b"a-1")
    ]
    assert [(member.member_metadata, member.member_assignment) for member in described[2].members] == [(b"", b"")]
    for version in range(6):
        encode(DescribeGroupsResponse(groups=described), version)
