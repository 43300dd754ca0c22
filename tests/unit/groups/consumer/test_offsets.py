"""The member epoch fences commits and fetches of offsets."""

from __future__ import annotations

import pytest
from consumer_driver import ConsumerDriver, given

from minikafka.errors import ErrorCode
from minikafka.wire.messages.offset_fetch import OffsetFetchRequestGroup


@pytest.fixture
def driver() -> ConsumerDriver:
    """Two members with two partitions each: "a", in epoch 2, has 0 and 1, and 2 and 3 of "b" were its own before."""
    driver = ConsumerDriver()
    driver.beat("a")
    driver.beat("b")
    told = driver.beat("a", 1)
    driver.beat("a", 1, owned=given(told))
    driver.beat("b", 2)
    return driver


def commit(driver: ConsumerDriver, member: str, epoch: int, *partitions: int, version: int = 9) -> list[int]:
    answer = driver.commit({("t", index): 7 for index in partitions}, member, epoch, version=version)
    return [partition.error_code for partition in answer.topics[0].partitions]


@pytest.mark.spec("G11")
def test_commits_count_for_partitions_that_the_member_has_had_since(driver: ConsumerDriver) -> None:
    assert commit(driver, "a", 2, 0, 1) == [0, 0]
    assert commit(driver, "a", 1, 0, 1) == [0, 0], "the commit was under way when the epoch rose"
    assert commit(driver, "a", 1, 0, 3) == [0, ErrorCode.STALE_MEMBER_EPOCH], "b has partition 3 now"
    again = "not STALE_MEMBER_EPOCH: librdkafka tries again with the epoch that it has, for ever"
    assert commit(driver, "a", 2, 3, 0) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0], again
    assert commit(driver, "b", 1, 3) == [ErrorCode.STALE_MEMBER_EPOCH], "it got that in epoch 2"
    assert driver.fetch(("t", 3)) == {("t", 3): -1}


@pytest.mark.parametrize(
    ("member", "epoch", "version", "error"),
    [
        ("a", 3, 9, ErrorCode.STALE_MEMBER_EPOCH),
        ("b", -1, 9, ErrorCode.STALE_MEMBER_EPOCH),
        ("a", -1, 9, ErrorCode.STALE_MEMBER_EPOCH),
        ("a", -2, 9, ErrorCode.STALE_MEMBER_EPOCH),
        ("x", 2, 9, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, 9, ErrorCode.UNKNOWN_MEMBER_ID),
        ("a", 2, 8, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
@pytest.mark.spec("G11")
def test_commits_that_are_refused(
    driver: ConsumerDriver, member: str, epoch: int, version: int, error: ErrorCode
) -> None:
    assert commit(driver, member, epoch, 0, version=version) == [error]


def test_tools_commit_when_there_are_no_members(driver: ConsumerDriver) -> None:
    driver.beat("a", -1)
    driver.beat("b", -1)
    assert commit(driver, "", -1, 0) == [0]


@pytest.mark.spec("G11")
def test_transactions_are_fenced_too(driver: ConsumerDriver) -> None:
    def in_transaction(member: str, epoch: int, partition: int) -> int:
        answer = driver.txn_commit({("t", partition): 7}, member=member, generation=epoch)
        return int(answer.topics[0].partitions[0].error_code)

    assert in_transaction("a", 2, 0) == 0
    assert in_transaction("", -1, 1) == 0, "a producer need not name its consumer"
    assert in_transaction("a", 3, 0) == ErrorCode.ILLEGAL_GENERATION
    assert in_transaction("b", -1, 0) == ErrorCode.ILLEGAL_GENERATION
    assert in_transaction("x", 2, 0) == ErrorCode.UNKNOWN_MEMBER_ID
    assert in_transaction("a", 1, 3) == ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize(
    ("member", "epoch", "error"),
    [
        (None, -1, ErrorCode.NONE),
        ("a", 2, ErrorCode.NONE),
        ("a", 1, ErrorCode.STALE_MEMBER_EPOCH),
        ("x", 2, ErrorCode.UNKNOWN_MEMBER_ID),
        (None, 2, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
@pytest.mark.spec("G11")
def test_fetches(driver: ConsumerDriver, member: str | None, epoch: int, error: ErrorCode) -> None:
    request = OffsetFetchRequestGroup(group_id="g", member_id=member, member_epoch=epoch, topics=None)
    assert driver.coordinator.fetch_offsets(request).error_code == error


def test_offsets_of_subscribed_topics_are_not_deleted(driver: ConsumerDriver) -> None:
    commit(driver, "a", 2, 0)
    answer = driver.delete_offsets(("t", 0))
    assert answer.topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
