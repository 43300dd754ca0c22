"""ConsumerGroupDescribe, and consumer groups in ListGroups and DescribeGroups."""

from __future__ import annotations

import pytest
from consumer_driver import ConsumerDriver

from minikafka.errors import ErrorCode
from minikafka.wire.codec import encode
from minikafka.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    DescribedAssignment,
)


def partitions(assignment: DescribedAssignment | None) -> dict[str, list[int]]:
    assert assignment is not None
    return {topic.topic_name: topic.partitions for topic in assignment.topic_partitions}


@pytest.mark.spec("G12")
def test_a_group_is_described() -> None:
    driver = ConsumerDriver(topics={"t": 2, "u": 1})
    driver.beat("a", names=["t"], instance="i", rack="r")
    driver.beat("b", names=["t"], regex="u", assignor="range")
    found = driver.coordinator.describe_consumer_group("g")
    assert (found.group_state, found.group_epoch, found.assignment_epoch) == ("Reconciling", 2, 2)
    assert found.assignor_name == "range"
    a, b = found.members
    assert (a.member_id, a.instance_id, a.rack_id, a.member_epoch, a.member_type) == ("a", "i", "r", 1, 1)
    assert (partitions(a.assignment), partitions(a.target_assignment)) == ({"t": [0, 1]}, {"t": [0]})
    assert (b.subscribed_topic_names, b.subscribed_topic_regex, partitions(b.assignment)) == (["t"], "u", {})
    driver.change_topics(t=0)
    assert partitions(driver.coordinator.describe_consumer_group("g").members[0].assignment) == {}
    for version in (0, 1):
        encode(ConsumerGroupDescribeResponse(groups=[found]), version)


@pytest.mark.spec("G12")
def test_each_protocol_has_its_own_description() -> None:
    driver = ConsumerDriver()
    driver.beat("a")
    driver.stable("c", group="classic")
    driver.beat("e", group="empty")
    driver.beat("e", -1, group="empty")
    describe = driver.coordinator.describe_consumer_group
    assert describe("classic").error_code == describe("nobody").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert describe("").error_code == ErrorCode.INVALID_GROUP_ID
    assert driver.coordinator.describe_group("g").group_state == "Dead"
    groups = filter(None, driver.coordinator.list_groups())
    listed = {group.group_id: (group.group_type, group.group_state) for group in groups}
    assert listed == {"g": ("consumer", "Stable"), "classic": ("classic", "Stable"), "empty": ("consumer", "Empty")}
    only = driver.coordinator.list_groups(["stable"], ["Consumer"])
    assert [group and (group.group_id, group.protocol_type) for group in only] == [("g", "consumer"), None, None]
