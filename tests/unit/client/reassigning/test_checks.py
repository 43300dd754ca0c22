from __future__ import annotations

from uuid import uuid4

import pytest

from minikafka.client.admin import LogDirectory, Reassignment
from minikafka.client.cluster import Cluster, PartitionView, TopicView
from minikafka.client.reassigning import checks
from minikafka.client.reassigning.plan import Placement, PlanError
from minikafka.errors import ErrorCode
from minikafka.model import Endpoint, TopicPartition

ORDERS = TopicPartition("orders", 0)


def view(*replicas: int) -> PartitionView:
    return PartitionView(replicas[0], 0, replicas, replicas)


def topic(name: str, error: ErrorCode, *partitions: PartitionView) -> TopicView:
    return TopicView(name, uuid4(), error, False, dict(enumerate(partitions)))


CLUSTER = Cluster(
    brokers={broker: Endpoint("h", broker) for broker in (1, 2, 3)},
    topics={
        "orders": topic("orders", ErrorCode.NONE, view(1, 2), view(2, 3)),
        "gone": topic("gone", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    },
)


@pytest.mark.spec("A2")
@pytest.mark.parametrize(
    ("tp", "replicas", "complaint"),
    [
        (TopicPartition("nowhere", 0), (1,), "nowhere-0: topic 'nowhere' not found"),
        (TopicPartition("gone", 0), (1,), "gone-0: topic 'gone' not found"),
        (TopicPartition("orders", 2), (1,), "orders-2: topic 'orders' has partitions 0 to 1"),
        (ORDERS, (1, 9), "orders-0: broker 9 is not alive; live brokers are 1, 2, 3"),
        (ORDERS, (1, 2, 3), "orders-0: 3 replicas instead of 2, and --disallow-replication-factor-change was given"),
    ],
)
def test_a_plan_that_does_not_fit_the_cluster_is_refused(
    tp: TopicPartition, replicas: tuple[int, ...], complaint: str
) -> None:
    plan = {TopicPartition("orders", 1): Placement((1, 2)), tp: Placement(replicas)}
    with pytest.raises(PlanError) as raised:
        checks.check_plan(plan, CLUSTER, allow_replication_factor_change=False)
    assert str(raised.value) == complaint


def test_the_replication_factor_may_change() -> None:
    checks.check_plan({ORDERS: Placement((1, 2, 3))}, CLUSTER)


@pytest.mark.spec("A2")
def test_a_reassignment_under_way_is_named() -> None:
    checks.check_nothing_under_way([])
    with pytest.raises(PlanError, match=r"a reassignment is in progress \(orders-0\); use --additional"):
        checks.check_nothing_under_way([ORDERS])
    with pytest.raises(PlanError, match=r"\(t-0, t-1, t-2, t-3, t-4, \.\.\.\)"):
        checks.check_nothing_under_way([TopicPartition("t", index) for index in range(6)])


@pytest.mark.spec("A2")
def test_a_directory_that_is_not_there_is_named() -> None:
    directories = {
        1: [
            LogDirectory("/a", ErrorCode.NONE, -1, -1, {}),
            LogDirectory("/b", ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, {}),
        ]
    }
    checks.check_directories({ORDERS: Placement((1, 2), ("/a", "any"))}, directories)
    for broker, path, others in ((1, "/c", "/a"), (1, "/b", "/a"), (2, "/a", "")):
        with pytest.raises(
            PlanError, match=f"orders-0: broker {broker} has no usable log directory {path}; it has {others}"
        ):
            checks.check_directories({ORDERS: Placement((broker,), (path,))}, directories)


def test_brokers_are_alive_and_named_once() -> None:
    checks.check_brokers([1, 3], CLUSTER)
    with pytest.raises(PlanError, match="broker 4 is not alive"):
        checks.check_brokers([1, 4], CLUSTER)
    with pytest.raises(PlanError, match="duplicate broker 1"):
        checks.check_brokers([1, 1], CLUSTER)


def test_what_would_undo_a_plan_is_where_its_partitions_are() -> None:
    current = checks.current_assignment(CLUSTER, ["orders"])
    assert current == {ORDERS: (1, 2), TopicPartition("orders", 1): (2, 3)}
    assert checks.in_plan({ORDERS: Placement((3,))}, current, {}) == {ORDERS: Placement((1, 2))}
    moving = {ORDERS: Reassignment((1, 2), (1,), ())}
    assert checks.in_plan({ORDERS: Placement((3,))}, current, moving) == {ORDERS: Placement((2,))}
    with pytest.raises(PlanError, match="topic 'gone' not found"):
        checks.current_assignment(CLUSTER, ["gone"])
