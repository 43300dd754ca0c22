"""Elections that are asked for, and those that happen by themselves (row C4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import controller_requests as ask
import pytest

from minikafka.errors import ErrorCode
from minikafka.metadata.controller.balancing import FIRST_PAUSE_MS
from minikafka.metadata.controller.elections import ElectionType
from minikafka.model import TopicPartition

pytestmark = pytest.mark.spec("C4")

PREFERRED, UNCLEAN = ElectionType


def elect(cluster: Any, election_type: int, *indexes: int) -> dict[int, ErrorCode]:
    wheres = tuple(TopicPartition("t", index) for index in indexes)
    response = cluster.ask(ask.elect(election_type, wheres or None))
    return {result.partition_id: ErrorCode.of(result.error_code) for result in ask.elected(response)}


def moved(cluster: Any) -> None:
    """Three partitions preferably led by 1, 2, 3, all led by 3; 1 is in sync again, 2 is not."""
    cluster.create("t", (1, 3), (2, 3), (3, 1))
    cluster.fence(1, 2)
    cluster.heartbeat(1)
    cluster.propose((3, 1), 0)


def test_a_preferred_election_elects_the_first_replica_if_it_is_in_sync(cluster: Any) -> None:
    moved(cluster)
    assert elect(cluster, PREFERRED, 0, 1, 2, 3) == {
        0: ErrorCode.NONE,
        1: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        2: ErrorCode.ELECTION_NOT_NEEDED,
        3: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert [cluster.partition(index).leader for index in range(3)] == [1, 3, 3]
    assert cluster.partition(0).isr == (1, 3)


def test_of_all_partitions_only_those_that_needed_something_are_told(cluster: Any) -> None:
    moved(cluster)
    assert elect(cluster, PREFERRED) == {0: ErrorCode.NONE, 1: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    assert elect(cluster, UNCLEAN) == {}


def test_unclean_of_an_offline_partition(cluster: Any) -> None:
    cluster.create("t", (1, 2))
    cluster.fence(2)
    cluster.fence(1)
    assert elect(cluster, UNCLEAN, 0) == {0: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}
    cluster.heartbeat(2)
    assert elect(cluster, UNCLEAN, 0) == {0: ErrorCode.NONE}
    assert (cluster.partition().leader, cluster.partition().isr) == (2, (2,))
    assert elect(cluster, UNCLEAN, 0) == {0: ErrorCode.ELECTION_NOT_NEEDED}


def test_by_themselves_soon_after_a_broker_came_back(cluster: Any) -> None:
    moved(cluster)
    cluster.wait(FIRST_PAUSE_MS - 1_000, 1, 3)
    assert cluster.partition(0).leader == 3
    cluster.wait(2_000, 1, 3)
    assert [cluster.partition(index).leader for index in range(3)] == [1, 3, 3]


def test_by_themselves_after_the_interval(cluster: Any) -> None:
    """A replica that is in sync again late, when no broker came back for long."""
    cluster.create("t", (1, 3))
    cluster.fence(1)
    cluster.heartbeat(1)
    cluster.wait(FIRST_PAUSE_MS * 20, 1, 3)
    assert cluster.partition(0).leader == 3
    cluster.propose((3, 1), 0)
    cluster.wait(300_000, 1, 3)
    assert cluster.partition(0).leader == 1


def test_not_by_themselves_when_that_is_off(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(auto_leader_rebalance_enable=False, leader_imbalance_check_interval_seconds=1)
    cluster.join(1, 2, 3)
    moved(cluster)
    cluster.wait(3000, 1, 3)
    assert cluster.partition(0).leader == 3
