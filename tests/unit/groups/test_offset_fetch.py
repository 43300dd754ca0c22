"""OffsetFetch in all versions, through the wire's codec."""

from __future__ import annotations

import pytest
from groups_driver import Driver

from minikafka.errors import ErrorCode
from minikafka.groups.offset_fetch import GROUPS_FROM_VERSION, requested_groups, response_of_one
from minikafka.wire.codec import decode_exactly, encode
from minikafka.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)


def ask(driver: Driver, request: OffsetFetchRequest, version: int) -> OffsetFetchResponse:
    """As a handler does, with both messages over the wire."""
    request = decode_exactly(OffsetFetchRequest, version, encode(request, version))
    groups = [driver.coordinator.fetch_offsets(group) for group in requested_groups(request, version)]
    is_new = version >= GROUPS_FROM_VERSION
    response = OffsetFetchResponse(groups=groups) if is_new else response_of_one(request, *groups, version)
    return decode_exactly(OffsetFetchResponse, version, encode(response, version))


@pytest.fixture
def committed(driver: Driver) -> Driver:
    driver.commit({("t", 0): 5, ("u", 1): 7}, metadata="note")
    return driver


@pytest.mark.parametrize("version", range(1, 8))
def test_old_versions_answer_the_offsets_of_one_group(committed: Driver, version: int) -> None:
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0, 9])]
    answer = ask(committed, OffsetFetchRequest(group_id="g", topics=topics), version)
    (topic,) = answer.topics
    found, missing = topic.partitions
    assert (found.committed_offset, found.metadata, found.error_code) == (5, "note", 0)
    assert found.committed_leader_epoch == (4 if version >= 5 else -1)
    assert (missing.committed_offset, missing.metadata, missing.error_code) == (-1, "", 0)


@pytest.mark.parametrize("version", range(2, 8))
def test_all_offsets_of_a_group(committed: Driver, version: int) -> None:
    answer = ask(committed, OffsetFetchRequest(group_id="g", topics=None), version)
    assert {topic.name: [at.committed_offset for at in topic.partitions] for topic in answer.topics} == {
        "t": [5],
        "u": [7],
    }


@pytest.mark.parametrize("version", range(8, 10))
def test_new_versions_answer_the_offsets_of_several_groups(committed: Driver, version: int) -> None:
    groups = [
        OffsetFetchRequestGroup(group_id="g", topics=None),
        OffsetFetchRequestGroup(group_id="unknown", topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])]),
        OffsetFetchRequestGroup(group_id="", topics=None),
    ]
    answer = ask(committed, OffsetFetchRequest(groups=groups), version)
    known, unknown, invalid = answer.groups
    assert [topic.partitions[0].committed_offset for topic in known.topics] == [5, 7]
    assert (unknown.error_code, unknown.topics[0].partitions[0].committed_offset) == (0, -1)
    assert invalid.error_code == ErrorCode.INVALID_GROUP_ID


def test_version_1_has_errors_by_partition_only(driver: Driver) -> None:
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    answer = ask(driver, OffsetFetchRequest(group_id="", topics=topics), 1)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.INVALID_GROUP_ID
    assert ask(driver, OffsetFetchRequest(group_id="", topics=topics), 2).error_code == ErrorCode.INVALID_GROUP_ID
