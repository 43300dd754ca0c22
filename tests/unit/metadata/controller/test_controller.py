"""Activation, the table of requests, and time."""

from __future__ import annotations

import random
from typing import Any

import controller_requests as ask
import pytest

from minikafka.config import BrokerConfig
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.controller.controller import _TIMED, _UNTIMED, Controller
from minikafka.metadata.controller.elections import ElectionType
from minikafka.metadata.image import EMPTY_IMAGE, MetadataImage
from minikafka.metadata.records import (
    METADATA_VERSION,
    ClusterIdRecord,
    FeatureLevelRecord,
    MetadataVersionRecord,
    UserScramCredentialRecord,
)
from minikafka.sasl.scram import ScramMechanism
from minikafka.wire.api import BROKERS, ApiKey


def controller() -> Controller:
    return Controller(1, "c", BrokerConfig(), random.Random(0))


def test_a_new_cluster_begins_with_its_version_and_id_and_the_highest_levels() -> None:
    one = controller()
    assert one.activate(EMPTY_IMAGE, 1, 0) == (
        MetadataVersionRecord(METADATA_VERSION),
        ClusterIdRecord("c"),
        FeatureLevelRecord("group.version", 1),
        FeatureLevelRecord("transaction.version", 2),
    )
    assert controller().activate(one.image, 2, 0) == ()


def test_a_new_cluster_gets_what_it_is_to_have_once_in_its_life() -> None:
    first = UserScramCredentialRecord("admin", ScramMechanism.SCRAM_SHA_512, b"salt", bytes(64), bytes(64), 4096)
    one = Controller(1, "c", BrokerConfig(), random.Random(0), first_records=lambda: [first])
    assert one.activate(EMPTY_IMAGE, 1, 0)[-1] == first
    assert one.activate(one.image, 2, 0) == ()


@pytest.mark.spec("C1")
def test_does_nothing_while_not_active() -> None:
    one = controller()
    request = ask.elect(ElectionType.PREFERRED)
    for _ in range(2):
        assert not one.is_active
        with pytest.raises(KafkaError, match="node 1 is not the active controller") as raised:
            one.handle(request, 0)
        assert raised.value.code is ErrorCode.NOT_CONTROLLER
        assert one.tick(0) == ()
        assert one.next_deadline_ms() is None
        one.activate(EMPTY_IMAGE, 1, 0)
        assert one.is_active
        one.handle(request, 0)
        one.deactivate()


def test_refuses_the_metadata_of_another_cluster() -> None:
    with pytest.raises(KafkaError, match="'other'") as raised:
        controller().activate(MetadataImage(0, 1, "other", 1), 2, 0)
    assert raised.value.code is ErrorCode.INCONSISTENT_CLUSTER_ID


def test_every_api_of_the_controllers_listener_is_in_the_table() -> None:
    assert _TIMED.keys() | _UNTIMED.keys() == {key.request_class for key in ApiKey if key.listeners >= BROKERS}
    assert not _TIMED.keys() & _UNTIMED.keys()


def test_a_request_that_fails_changes_nothing(cluster: Any) -> None:
    before = cluster.image
    for request in (
        ask.allocate(1, 0),
        ask.propose(9, 0),
        ask.heartbeat(1, 0, 0),
    ):
        with pytest.raises(KafkaError) as raised:
            cluster.controller.handle(request, cluster.now_ms)
        assert raised.value.code is ErrorCode.STALE_BROKER_EPOCH
    assert cluster.controller.image == before
    assert cluster.controller.tick(cluster.now_ms) == ()


def test_ticks_often_enough_to_tell_a_pause_from_silence(cluster: Any) -> None:
    cluster.wait(100)
    assert cluster.controller.next_deadline_ms() == cluster.now_ms + 750
    cluster.wait(2600)
    assert cluster.controller.next_deadline_ms() == cluster.now_ms + 300, "the sessions began 2.7 s ago"
