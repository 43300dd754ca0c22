"""Offsets committed in transactions, beyond the golden scenarios."""

from __future__ import annotations

from uuid import UUID

import pytest
from groups_driver import UNSTABLE, Driver, Marker

from minikafka.coordination.effects import Write
from minikafka.coordination.phase import Phase
from minikafka.errors import ErrorCode
from minikafka.groups.coordinator import GroupCoordinator
from minikafka.groups.group import GroupState
from minikafka.groups.settings import CoordinatorSettings
from minikafka.model import ProducerIdentity
from minikafka.wire.messages.txn_offset_commit import TxnOffsetCommitResponse


def error_of(answer: TxnOffsetCommitResponse) -> int:
    (error,) = {partition.error_code for topic in answer.topics for partition in topic.partitions}
    return error


@pytest.mark.spec("T40")
def test_offsets_become_visible_with_the_transaction(driver: Driver) -> None:
    driver.commit({("t", 0): 1})
    assert error_of(driver.txn_commit({("t", 0): 2, ("t", 1): 3})) == 0
    assert driver.fetch() == {("t", 0): 1}
    assert driver.fetch(stable=True) == {("t", 0): UNSTABLE, ("t", 1): UNSTABLE}
    driver.end()
    assert driver.fetch() == driver.fetch(stable=True) == {("t", 0): 2, ("t", 1): 3}
    assert not driver.coordinator.shard.open_transactions


@pytest.mark.spec("T40")
def test_offsets_of_an_aborted_transaction_are_never_seen(driver: Driver) -> None:
    driver.txn_commit({("t", 0): 2})
    driver.end(commits=False)
    assert driver.fetch(("t", 0), stable=True) == {("t", 0): -1}
    assert driver.group() is None, "nothing is left of the group"


@pytest.mark.spec("T41")
def test_the_record_that_was_written_last_counts(driver: Driver) -> None:
    driver.txn_commit({("t", 0): 1, ("t", 1): 1})
    driver.commit({("t", 0): 2})
    assert driver.fetch(stable=True)["t", 0] == UNSTABLE, "the transaction is still open"
    driver.end()
    assert driver.fetch() == {("t", 0): 2, ("t", 1): 1}


def test_the_end_of_one_transaction_is_not_that_of_the_next(driver: Driver) -> None:
    """Both are below the high watermark at once: places in the log decide."""
    driver.auto_commit = False
    first = driver.txn_commit({("t", 0): 1})
    driver.end()
    driver.txn_commit({("t", 1): 2}, (7, 1))
    for _ in range(3):
        driver.committed()
    assert error_of(driver.answers[first]) == 0
    assert driver.fetch(("t", 0), ("t", 1)) == {("t", 0): 1, ("t", 1): -1}
    assert driver.fetch(("t", 1), stable=True) == {("t", 1): UNSTABLE}


@pytest.mark.spec("T42")
def test_a_commit_on_its_way_is_unstable_whatever_becomes_of_it(driver: Driver) -> None:
    driver.commit({("t", 0): 1})
    driver.auto_commit = False
    driver.commit({("t", 0): 2})
    driver.txn_commit({("t", 1): 2})
    driver.txn_commit({("t", 1): 3})
    assert driver.fetch(stable=True) == {("t", 0): UNSTABLE, ("t", 1): UNSTABLE}
    assert driver.fetch() == {("t", 0): 1}
    driver.failed(ErrorCode.NOT_ENOUGH_REPLICAS)
    driver.failed(ErrorCode.NOT_ENOUGH_REPLICAS, which=1)
    assert driver.fetch(stable=True) == {("t", 0): 1, ("t", 1): UNSTABLE}
    driver.committed()
    assert driver.fetch(stable=True) == {("t", 0): 1, ("t", 1): UNSTABLE}


@pytest.mark.spec("T43")
def test_the_consumer_must_be_of_the_current_generation(driver: Driver) -> None:
    (member,) = driver.stable("a", instance="i")
    for who, error in [
        ((member, 1, "i"), ErrorCode.NONE),
        (("", -1, None), ErrorCode.NONE),
        ((member, 0, "i"), ErrorCode.ILLEGAL_GENERATION),
        ((member, -1, "i"), ErrorCode.ILLEGAL_GENERATION),
        (("stranger", 1, None), ErrorCode.UNKNOWN_MEMBER_ID),
        (("stranger", 1, "i"), ErrorCode.FENCED_INSTANCE_ID),
        ((member, 1, "j"), ErrorCode.UNKNOWN_MEMBER_ID),
        (("", 1, None), ErrorCode.UNKNOWN_MEMBER_ID),
    ]:
        name, generation, instance = who
        assert error_of(driver.txn_commit({("t", 0): 1}, (7, 0), name, generation, instance=instance)) == error, who


@pytest.mark.spec("T43")
@pytest.mark.parametrize(("version", "error"), [(5, ErrorCode.ILLEGAL_GENERATION), (6, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_a_generation_of_a_group_that_is_not_there(driver: Driver, version: int, error: ErrorCode) -> None:
    assert error_of(driver.txn_commit({("t", 0): 1}, (7, 0), "m", 1, version=version)) == error
    assert driver.group() is None


def test_a_member_may_commit_before_it_has_its_assignment(driver: Driver) -> None:
    """Unlike without a transaction: what it did was in its last assignment, and its producer cannot wait."""
    joined = driver.join("a")
    assert driver.group().is_in(GroupState.COMPLETING_REBALANCE)
    assert error_of(driver.txn_commit({("t", 0): 1}, (7, 0), joined.member_id, joined.generation_id)) == 0


@pytest.mark.parametrize("producer", [(-1, 0), (7, -1)])
def test_no_producer(driver: Driver, producer: tuple[int, int]) -> None:
    assert error_of(driver.txn_commit({("t", 0): 1}, producer)) == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_what_cannot_be_written_is_refused(driver: Driver) -> None:
    refused = driver.txn_commit({("t", 0): 1}, metadata="x" * 5_000)
    assert error_of(refused) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert driver.group() is None
    driver.end()
    assert error_of(driver.txn_commit({("t", 0): 1})) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert driver.group() is None
    driver.auto_commit = False
    token = driver.txn_commit({("t", 0): 1}, (7, 1))
    driver.failed(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert error_of(driver.answers[token]) == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_records_are_in_the_producers_transaction(driver: Driver) -> None:
    driver.auto_commit = False
    driver.txn_commit({("t", 0): 1}, (7, 3))
    (write,) = driver.appended
    assert isinstance(write, Write)
    assert write.producer == ProducerIdentity(7, 3)
    driver.committed()
    driver.commit({("t", 0): 1})
    (write,) = driver.appended
    assert isinstance(write, Write)
    assert write.producer is None


def test_who_does_not_serve_refuses() -> None:
    driver = Driver()
    driver.coordinator = GroupCoordinator(CoordinatorSettings(), str, int, driver.topic_id)
    assert error_of(driver.txn_commit({("t", 0): 1})) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    driver.coordinator.resign(0)
    assert error_of(driver.txn_commit({("t", 0): 1})) == ErrorCode.NOT_COORDINATOR
    assert driver.coordinator.on_marker(7, 0, commits=True) == []
    assert error_of(Driver().txn_commit({("t", 0): 1}, group="")) == ErrorCode.INVALID_GROUP_ID


# -- the next coordinator ---------------------------------------------------------------------------------------------


@pytest.mark.spec("T44")
@pytest.mark.parametrize("commits", [True, False])
def test_the_next_coordinator_knows_what_is_pending(driver: Driver, commits: bool) -> None:
    driver.commit({("t", 0): 1})
    driver.txn_commit({("t", 0): 2})
    driver.failover()
    assert driver.fetch() == {("t", 0): 1}
    assert driver.fetch(stable=True) == {("t", 0): UNSTABLE}
    driver.end(commits=commits)
    driver.failover()
    assert driver.fetch(stable=True) == {("t", 0): 2 if commits else 1}


def test_a_marker_while_groups_are_restored_may_remove_one(driver: Driver) -> None:
    for group in ("g", "h"):
        driver.txn_commit({("t", 0): 1}, group=group)
    coordinator = GroupCoordinator(CoordinatorSettings(groups_per_step=1), str, lambda: 0, driver.topic_id)
    driver.replay_into(coordinator)
    coordinator.finish_loading(0)
    assert coordinator.phase is Phase.LOADING
    assert coordinator.on_marker(7, 0, commits=False) == []
    coordinator.finish_loading(0)
    assert coordinator.phase is Phase.ACTIVE
    assert not coordinator.shard.groups


# -- deletion ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("T45")
@pytest.mark.parametrize("commits", [True, False])
def test_what_is_deleted_takes_what_is_pending_with_it(driver: Driver, commits: bool) -> None:
    driver.txn_commit({("t", 0): 1})
    driver.txn_commit({("t", 0): 1, ("t", 1): 1}, group="h")
    assert driver.delete_group().error_code == 0
    driver.delete_offsets(("t", 0), group="h")
    assert driver.fetch(stable=True) == {}
    assert driver.fetch(group="h", stable=True) == {("t", 1): UNSTABLE}
    driver.end(commits=commits)
    assert driver.fetch() == {}
    assert driver.fetch(group="h") == ({("t", 1): 1} if commits else {})
    assert not driver.coordinator.shard.open_transactions


def test_a_group_is_deleted_with_a_transactional_commit_on_its_way(driver: Driver) -> None:
    driver.auto_commit = False
    driver.txn_commit({("t", 0): 1})
    driver.delete_group()
    for _ in range(2):
        driver.committed()
    driver.end()
    driver.committed()
    assert driver.group() is None


@pytest.mark.spec("T45")
def test_retention_leaves_alone_what_is_pending() -> None:
    driver = Driver(offsets_retention_ms=1_000, offsets_retention_check_interval_ms=100)
    driver.commit({("t", 0): 1, ("t", 1): 1})
    driver.txn_commit({("t", 0): 2})
    driver.advance(10_000)
    assert driver.fetch() == {("t", 0): 1}
    driver.end(commits=False)
    driver.advance(1_000)
    assert driver.group() is None


def test_a_group_with_an_open_transaction_is_kept() -> None:
    driver = Driver(offsets_retention_ms=1_000, offsets_retention_check_interval_ms=100)
    (member,) = driver.stable("a")
    driver.txn_commit({("t", 0): 2})
    driver.leave((member, None))
    driver.advance(10_000)
    assert driver.group().generation_id == 2
    driver.end(commits=False)
    driver.advance(1_000)
    assert driver.group() is None


def test_an_offset_that_became_visible_late_ages_from_its_commit() -> None:
    driver = Driver(offsets_retention_ms=1_000, offsets_retention_check_interval_ms=100)
    driver.txn_commit({("t", 0): 2})
    driver.advance(10_000)
    driver.end()
    assert driver.fetch() == {("t", 0): 2}
    driver.advance(200)
    assert driver.fetch() == {}


@pytest.mark.spec("T45")
def test_pending_offsets_of_a_deleted_topic_go_with_it(driver: Driver) -> None:
    driver.txn_commit({("t", 0): 1})
    driver.delete_topics("t", again=True)
    driver.advance(1_000)
    assert driver.fetch(("t", 0), stable=True) == {("t", 0): -1}
    driver.end()
    assert driver.group() is None


@pytest.mark.parametrize("commits", [True, False])
def test_a_deletion_waits_for_the_transaction_of_the_next_topic(driver: Driver, commits: bool) -> None:
    driver.commit({("t", 0): 1})
    driver.auto_commit = False
    driver.incarnations.update(["t"])
    driver.txn_commit({("t", 0): 2})
    driver.committed()
    driver.run(driver.coordinator.on_topics_deleted(driver.now_ms))
    driver.advance(1_000)
    assert not driver.appended, "a tombstone would remove the offset of the topic that is there"
    driver.auto_commit = True
    driver.end(commits=commits)
    driver.advance(1_000)
    assert driver.fetch() == ({("t", 0): 2} if commits else {})
    assert (driver.group() is None) is not commits, "what is left of the old topic goes at once"


def test_an_offset_of_a_deleted_topic_may_still_be_committed(driver: Driver) -> None:
    """Its tombstone was not written; the next attempt comes with the end of the transaction."""
    driver.auto_commit = False
    driver.txn_commit({("t", 0): 1})
    driver.committed()
    driver.delete_topics("t")
    driver.advance(1_000)
    driver.failed(ErrorCode.NOT_ENOUGH_REPLICAS)
    driver.auto_commit = True
    driver.end()
    assert driver.fetch() == {}
    driver.advance(1_000)
    assert driver.group() is None


def test_the_topics_id_is_in_the_record(driver: Driver) -> None:
    driver.txn_commit({("t", 0): 1})
    driver.end()
    (committed,) = driver.group().offsets.values()
    assert committed.value.topic_id == driver.topic_id("t") != UUID(int=0)
    assert isinstance(driver.log[-1], Marker)


# -- hostile ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("T46")
def test_a_transaction_has_a_bound() -> None:
    """Over all groups, also of what is on its way, and for the next coordinator."""
    driver = Driver(auto_commit=False, transaction_offsets_max=4)
    three = {("t", partition): 1 for partition in range(3)}
    for group in ("g", "h"):
        driver.txn_commit(three, group=group, token=group)
    assert error_of(driver.answers["h"]) == ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    assert driver.group("h") is None
    driver.failed(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert not driver.coordinator.shard.open_transactions
    driver.auto_commit = True
    assert error_of(driver.txn_commit(three, group="h")) == 0
    driver.failover()
    assert error_of(driver.txn_commit(three)) == ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    assert error_of(driver.txn_commit(three, (8, 0))) == 0, "another transaction"
    driver.end()
    assert error_of(driver.txn_commit(three, (7, 1))) == 0


@pytest.mark.spec("T46")
def test_a_transaction_remembers_no_group_that_was_deleted(driver: Driver) -> None:
    """One that went through 6,000 names of 30 KB had a node keep 60 MB, which nothing counted."""
    driver.txn_commit({("t", 0): 1}, group="h")
    driver.delete_group("h")
    driver.txn_commit({("t", 0): 1, ("t", 1): 1})
    driver.delete_offsets(("t", 0))
    (transaction,) = driver.coordinator.shard.open_transactions.values()
    assert list(transaction.groups) == ["g"]
    driver.end()
    assert driver.fetch() == {("t", 1): 1}


@pytest.mark.spec("T46")
def test_transactions_cost_no_memory_when_they_are_over(driver: Driver) -> None:
    for producer in range(200):
        driver.txn_commit({("t", partition): producer for partition in range(20)}, (producer, 0), group=f"g{producer}")
    assert len(driver.coordinator.shard.open_transactions) == 200
    for producer in range(200):
        driver.end(producer, commits=False)
    shard = driver.coordinator.shard
    assert (shard.groups, shard.open_transactions, shard.writes) == ({}, {}, {})
