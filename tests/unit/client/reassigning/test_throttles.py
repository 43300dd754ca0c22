from __future__ import annotations

import pytest

from minikafka.client.admin import Reassignment
from minikafka.client.reassigning.plan import Placement
from minikafka.client.reassigning.throttles import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LOG_DIR_RATE,
    Throttle,
    throttle_for,
)
from minikafka.model import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
RATES = {LEADER_RATE: "500", FOLLOWER_RATE: "500"}


@pytest.mark.spec("A4")
def test_those_that_are_there_send_slowly_and_those_that_come_fetch_slowly() -> None:
    plan = {A0: Placement((1, 4)), A1: Placement((2, 3)), B0: Placement((5,))}
    current = {A0: (1, 2), A1: (2, 3), B0: (1,)}
    assert throttle_for(plan, current, {}, rate=500) == Throttle(
        {1: RATES, 2: RATES, 4: RATES, 5: RATES},
        {
            "a": {LEADER_REPLICAS: "0:1,0:2", FOLLOWER_REPLICAS: "0:4"},
            "b": {LEADER_REPLICAS: "0:1", FOLLOWER_REPLICAS: "0:5"},
        },
    )


@pytest.mark.spec("A4")
def test_what_is_under_way_stays_slow() -> None:
    ongoing = {A0: Reassignment((1, 4, 2), (4,), (2,)), A1: Reassignment((2, 3, 5), (5,), ())}
    current = {A0: (1, 4, 2), A1: (2, 3, 5)}
    throttle = throttle_for({A0: Placement((1, 4))}, current, ongoing, rate=500)
    assert throttle.topics == {"a": {LEADER_REPLICAS: "0:1,0:2,1:2,1:3", FOLLOWER_REPLICAS: "0:4,1:5"}}


def test_without_a_rate_nothing_is_set() -> None:
    assert throttle_for({A0: Placement((4,))}, {A0: (1,)}, {}, rate=None) == Throttle({}, {})


def test_moves_between_directories_have_a_rate_of_their_own() -> None:
    plan = {A0: Placement((1, 2), ("/data", "any"))}
    throttle = throttle_for(plan, {A0: (1, 2)}, {}, rate=None, log_dir_rate=7)
    assert throttle == Throttle({1: {LOG_DIR_RATE: "7"}}, {})
