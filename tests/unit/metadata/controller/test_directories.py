"""In which log directory replicas are, and what the failure of one takes (KIP-858)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import controller_requests as ask
import pytest

from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.controller.elections import ElectionType
from minikafka.model import LOST_DIRECTORY
from minikafka.wire.messages.assign_replicas_to_dirs import DirectoryData


def ids(*numbers: int) -> tuple[UUID, ...]:
    return tuple(UUID(int=number) for number in numbers)


@pytest.fixture
def placed(new_cluster: Any) -> Any:
    """Two partitions; broker 1 has one in each of its two directories, 2 has both in its only one."""
    cluster = new_cluster(min_insync_replicas=2)
    cluster.register(1, log_dirs=ids(11, 12))
    cluster.register(2, log_dirs=ids(21))
    for broker_id in (1, 2):
        cluster.heartbeat(broker_id)
    cluster.create("t", (1, 2), (1, 2))
    cluster.place(1, 11)
    cluster.place(1, 12, index=1)
    return cluster


def test_a_single_directory_needs_no_telling(placed: Any) -> None:
    assert placed.partition().directories == ids(11, 21)
    before = placed.image
    placed.place(1, 11)
    assert placed.image.topics_by_name == before.topics_by_name


@pytest.mark.spec("C4")
def test_a_failure_takes_what_is_in_the_directory_alone(placed: Any) -> None:
    placed.heartbeat(1, offline_log_dirs=ids(11))
    assert (placed.partition().leader, placed.partition().isr, placed.partition().elr) == (2, (2,), ())
    assert (placed.partition(1).leader, placed.partition(1).isr) == (1, (1, 2))
    assert placed.propose((1, 2)).error_code == ErrorCode.INELIGIBLE_REPLICA
    result = ask.elected(placed.ask(ask.elect(ElectionType.PREFERRED)))[0]
    assert result.error_code == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


def test_a_replica_made_anew_is_not_the_one_that_led_last(placed: Any) -> None:
    placed.fence(2)
    placed.heartbeat(1, offline_log_dirs=ids(11))
    assert (placed.partition().leader, placed.partition().elr) == (-1, (2,))
    placed.ask(ask.unregister(2))
    assert (placed.partition().elr, placed.partition().last_known_elr) == ((), (1,))
    placed.fence(1)
    placed.register(1, log_dirs=ids(12, 13))
    placed.heartbeat(1)
    placed.place(1, 13)
    assert (placed.partition().leader, placed.partition().last_known_elr) == (-1, ())


@pytest.mark.spec("P5")
def test_who_led_last_leads_with_what_is_left_when_all_are_damaged(placed: Any) -> None:
    """It said that it is lost while another replica might be complete, and takes that back when none is."""
    placed.fence(2, 1)
    placed.register(1, log_dirs=ids(11, 12), whole=())
    placed.heartbeat(1)
    placed.ask(ask.assign(1, placed.epochs[1], lost(placed)))
    assert (placed.partition().elr, placed.partition().last_known_elr) == ((2,), (1,))
    placed.register(2, log_dirs=ids(21), whole=())
    placed.heartbeat(2)
    assert (placed.partition().leader, placed.partition().elr) == (-1, ())
    placed.place(1, 11)
    assert (placed.partition().leader, placed.partition().isr) == (1, (1,))


def lost(placed: Any) -> DirectoryData:
    return ask.placed(placed.image.topics_by_name["t"].topic_id, 0, LOST_DIRECTORY)


def test_a_directory_that_works_again_has_the_replica_that_led_last(placed: Any) -> None:
    placed.fence(2)
    placed.ask(ask.unregister(2))
    placed.heartbeat(1, offline_log_dirs=ids(11))
    placed.place(1, 11)
    placed.place(1, 1)
    placed.place(1, 11)
    assert (placed.partition().leader, placed.partition().last_known_elr) == (-1, (1,)), "it is where it was"
    placed.fence(1)
    placed.register(1, log_dirs=ids(11, 12))
    placed.heartbeat(1)
    assert placed.partition().leader == 1


def test_without_directories_a_broker_stays_fenced(placed: Any) -> None:
    for _ in range(2):
        assert placed.heartbeat(1, offline_log_dirs=ids(11, 12)).is_fenced
    assert (placed.partition(1).leader, placed.partition(1).elr) == (2, ())


@pytest.mark.parametrize(
    ("broker_id", "log_dirs", "code"),
    [
        (1, (11, 11), ErrorCode.INVALID_REGISTRATION),
        (1, (0,), ErrorCode.INVALID_REGISTRATION),
        (3, (21,), ErrorCode.DUPLICATE_BROKER_REGISTRATION),
    ],
)
def test_ids_tell_directories_apart(placed: Any, broker_id: int, log_dirs: tuple[int, ...], code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as raised:
        placed.register(broker_id, log_dirs=ids(*log_dirs))
    assert raised.value.code is code


def test_assignments_are_refused_each_for_itself(placed: Any) -> None:
    placed.register(3, log_dirs=ids(31))
    assert placed.place(3, 31).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert placed.place(1, 11, index=9).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    unknown = ask.placed(UUID(int=99), 0, UUID(int=11))
    response = placed.ask(ask.assign(1, placed.epochs[1], unknown))
    assert ask.assigned(response)[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
