from __future__ import annotations

from uuid import UUID

from replication_log import MemoryLog

from minikafka.errors import ErrorCode
from minikafka.model import TopicPartition
from minikafka.replication.fetch_state import FollowedPartition
from minikafka.replication.fetch_states import FetchStates

ORDERS, PAYMENTS = UUID(int=1), UUID(int=2)


def follow(states: FetchStates, topic: str, partition: int, topic_id: UUID, leader_epoch: int = 1) -> TopicPartition:
    tp = TopicPartition(topic, partition)
    states.add(FollowedPartition(tp, leader_epoch, MemoryLog(), topic_id))
    return tp


def test_the_name_of_a_topic_goes_with_its_last_partition() -> None:
    states = FetchStates(1000)
    first, second = follow(states, "orders", 0, ORDERS), follow(states, "orders", 1, ORDERS)
    other = follow(states, "payments", 0, PAYMENTS)
    states.remove([first])
    assert (states.topic_name(ORDERS), states.topic_name(PAYMENTS)) == ("orders", "payments")
    states.remove([second, first])
    assert (states.topic_name(ORDERS), states.topic_name(PAYMENTS)) == ("", "payments")
    states.remove([other])
    assert (states.topic_name(PAYMENTS), len(states)) == ("", 0)


def test_a_partition_added_in_another_epoch_counts_once() -> None:
    states = FetchStates(1000)
    for leader_epoch in (1, 2, 2, 3):
        tp = follow(states, "orders", 0, ORDERS, leader_epoch)
    assert states.topic_name(ORDERS) == "orders"
    states.remove([tp])
    assert states.topic_name(ORDERS) == ""


def test_a_topic_that_was_made_again_has_the_new_id_only() -> None:
    states = FetchStates(1000)
    follow(states, "orders", 0, ORDERS)
    follow(states, "orders", 0, PAYMENTS)
    assert (states.topic_name(ORDERS), states.topic_name(PAYMENTS)) == ("", "orders")


def test_partitions_given_up_leave_no_name_behind() -> None:
    states = FetchStates(1000)
    first, second = follow(states, "orders", 0, ORDERS), follow(states, "orders", 1, ORDERS)
    state = states.get(first)
    assert state is not None
    states.fail(state, "a reason")
    assert states.topic_name(ORDERS) == "orders"
    state = states.get(second)
    assert state is not None
    states.on_error(state, ErrorCode.FENCED_LEADER_EPOCH, 0)
    assert states.topic_name(ORDERS) == ""
