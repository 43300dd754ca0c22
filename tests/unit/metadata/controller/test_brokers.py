"""Registration, heartbeats, fencing and controlled shutdown (row C3)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import controller_requests as ask
import pytest

from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.controller.elections import ElectionType
from minikafka.model import Endpoint
from minikafka.wire.messages.broker_heartbeat import BrokerHeartbeatResponse

pytestmark = pytest.mark.spec("C3")


def answer(*, is_fenced: bool, is_caught_up: bool = True, should_shut_down: bool = False) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(is_caught_up=is_caught_up, is_fenced=is_fenced, should_shut_down=should_shut_down)


def test_the_broker_epoch_is_the_offset_of_the_registration(cluster: Any) -> None:
    for _ in range(3):
        expected = cluster.image.offset + 1
        assert cluster.register(4) == expected
        assert cluster.image.brokers[4].broker_epoch == expected
        cluster.fence(4)
    cluster.fail_over()
    assert cluster.register(4) == cluster.image.offset


def test_a_broker_is_unfenced_when_it_has_seen_its_registration(cluster: Any) -> None:
    broker_epoch = cluster.register(4)
    assert cluster.heartbeat(4, at=broker_epoch - 1) == answer(is_caught_up=False, is_fenced=True)
    assert cluster.heartbeat(4, at=broker_epoch) == answer(is_fenced=False)
    assert cluster.image.is_live(4)
    assert cluster.heartbeat(4, want_fence=True).is_fenced
    assert not cluster.heartbeat(4).is_fenced


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"cluster_id": "other"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"listeners": {}}, ErrorCode.INVALID_REGISTRATION),
        ({"broker_id": -1}, ErrorCode.INVALID_REGISTRATION),
        ({"broker_id": 1}, ErrorCode.DUPLICATE_BROKER_REGISTRATION),
    ],
)
def test_registrations_that_are_refused(cluster: Any, changes: dict[str, Any], code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as raised:
        cluster.register(4, **changes)
    assert raised.value.code is code


def test_a_repeated_registration_is_the_same_and_a_changed_one_is_new(cluster: Any) -> None:
    incarnation_id = UUID(int=77)
    first = cluster.register(4, incarnation_id=incarnation_id)
    assert cluster.register(4, incarnation_id=incarnation_id) == first
    moved = {"CLIENT": Endpoint("elsewhere", 1)}
    assert cluster.register(4, incarnation_id=incarnation_id, listeners=moved) > first
    assert cluster.image.brokers[4].listeners == moved


def test_another_process_registers_once_the_session_is_over(cluster: Any) -> None:
    cluster.wait(2900, 1, 2)
    with pytest.raises(KafkaError) as raised:
        cluster.register(3)
    assert raised.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.wait(200, 1, 2)
    assert not cluster.image.is_live(3)
    cluster.register(3)
    with pytest.raises(KafkaError, match="registered in epoch"):
        cluster.ask(ask.heartbeat(3, cluster.epochs[3] - 1, 0))


def test_another_process_registers_at_once_when_the_broker_was_only_presumed(cluster: Any) -> None:
    """All nodes were killed: the image says live, but no process of then is."""
    cluster.fail_over()
    cluster.register(3)
    with pytest.raises(KafkaError):
        cluster.register(3)


def test_a_fenced_broker_that_speaks_keeps_others_out_too(cluster: Any) -> None:
    cluster.register(4)
    cluster.heartbeat(4, want_fence=True)
    with pytest.raises(KafkaError):
        cluster.register(4)


def test_fencing_names_the_incarnation(cluster: Any) -> None:
    stale = cluster.epochs[1]
    cluster.fence(1)
    cluster.register(1)
    cluster.heartbeat(1)
    cluster.fence_gone(1, stale)
    assert cluster.image.is_live(1)
    for _ in range(2):
        cluster.fence_gone(1, cluster.epochs[1])
        assert not cluster.image.is_live(1)
    cluster.fence_gone(9, 0)


def test_a_broker_fenced_by_mistake_is_back_with_its_next_heartbeat(cluster: Any) -> None:
    cluster.create("t", (1, 2, 3))
    cluster.fence(1)
    assert cluster.partition().isr == (2, 3)
    assert not cluster.heartbeat(1).is_fenced
    assert cluster.propose((1, 2, 3)).error_code == ErrorCode.NONE


def test_brokers_whose_sessions_end_together_leave_nothing_to_each_other(cluster: Any) -> None:
    cluster.create("t", (1, 2, 3))
    cluster.create("u", (1, 2))
    cluster.wait(3100, 3)
    assert [broker.broker_id for broker in cluster.image.live_brokers()] == [3]
    assert (cluster.partition().leader, cluster.partition().isr) == (3, (3,))
    assert (cluster.partition(topic="u").leader, cluster.partition(topic="u").elr) == (-1, (1, 2))
    cluster.heartbeat(2)
    assert (cluster.partition(topic="u").leader, cluster.partition(topic="u").isr) == (2, (2,))


def test_a_new_controller_waits_a_whole_session(cluster: Any) -> None:
    cluster.wait(2900, 1, 2)
    cluster.fail_over()
    cluster.wait(2900, 1, 2)
    assert cluster.image.is_live(3)
    cluster.wait(100, 1, 2)
    assert not cluster.image.is_live(3)


def test_a_pause_of_the_controller_fences_nobody(cluster: Any) -> None:
    cluster.now_ms += 60_000
    cluster.log(cluster.controller.tick(cluster.now_ms))
    assert len(cluster.image.live_brokers()) == 3


def test_a_heartbeat_that_waits_for_other_requests_keeps_its_session(cluster: Any) -> None:
    timeout_ms = cluster.config.broker_session_timeout_ms
    for _ in range(10):  # none is as long as a pause that is given back
        cluster.now_ms += timeout_ms // 3
        cluster.ask(ask.elect(ElectionType.PREFERRED))
        for number in (1, 2):
            heartbeat = ask.heartbeat(number, cluster.epochs[number], cluster.image.offset)
            cluster.controller.expect_heartbeat(heartbeat, cluster.now_ms)
    cluster.log(cluster.controller.tick(cluster.now_ms))
    assert [cluster.image.is_live(number) for number in (1, 2, 3)] == [True, True, False]


def test_shutdown_waits_until_the_others_have_heard(cluster: Any) -> None:
    cluster.create("t", (1, 2, 3))
    before = cluster.image.offset
    assert not cluster.heartbeat(1, want_shut_down=True).should_shut_down
    assert (cluster.partition().leader, cluster.partition().isr) == (2, (2, 3))
    assert cluster.image.is_live(1), "it serves until it may go"
    cluster.heartbeat(2)
    cluster.heartbeat(3, at=before)
    assert not cluster.heartbeat(1, want_shut_down=True).should_shut_down
    cluster.heartbeat(3)
    assert cluster.heartbeat(1, want_shut_down=True) == answer(is_fenced=True, should_shut_down=True)
    assert not cluster.image.is_live(1)
    assert cluster.heartbeat(1).should_shut_down, "once told, always told"
    assert not cluster.image.is_live(1)
    cluster.register(1)


def test_shutdown_goes_on_under_a_new_controller(cluster: Any) -> None:
    cluster.create("t", (1, 2, 3))
    cluster.heartbeat(1, want_shut_down=True)
    cluster.fail_over()
    assert not cluster.heartbeat(1, want_shut_down=True).should_shut_down
    cluster.heartbeat(2)
    cluster.heartbeat(3)
    assert cluster.heartbeat(1, want_shut_down=True).should_shut_down


def test_a_broker_that_was_never_unfenced_may_stop_at_once(cluster: Any) -> None:
    cluster.register(4)
    assert cluster.heartbeat(4, want_shut_down=True).should_shut_down
    cluster.register(4)


def test_shutdown_does_not_wait_for_others_that_stop(cluster: Any) -> None:
    assert not cluster.heartbeat(1, want_shut_down=True).should_shut_down
    assert not cluster.heartbeat(2, want_shut_down=True).should_shut_down
    assert not cluster.heartbeat(3, want_shut_down=True).should_shut_down, "its partitions are settled after the answer"
    assert cluster.heartbeat(3, want_shut_down=True).should_shut_down
    assert cluster.heartbeat(1, want_shut_down=True).should_shut_down


@pytest.mark.spec("P1")
def test_a_registration_that_was_not_written_down_is_continued_all_the_same(cluster: Any) -> None:
    """It died between being registered and writing that down, so it did nothing as that registration."""
    cluster.create("t", (1,))
    written = cluster.epochs[1]
    for _ in range(3):
        cluster.fence(1)
        cluster.register(1, previous_broker_epoch=written)
        assert cluster.partition().elr == (1,)
    cluster.fence(1)
    cluster.register(1, previous_broker_epoch=written + 1)
    assert (cluster.partition().elr, cluster.partition().last_known_elr) == ((), (1,))


@pytest.mark.spec("P5")
@pytest.mark.parametrize("is_synced", [False, True])
def test_nothing_counts_of_an_older_copy_of_the_disks(cluster: Any, *, is_synced: bool) -> None:
    """It was taken under a registration after which the broker lived under another one, and promised more."""
    cluster.create("t", (1,), configs=(("flush.messages", "1"),) * is_synced)
    copied = cluster.epochs[1]
    cluster.fence(1)
    cluster.register(1, previous_broker_epoch=copied)
    cluster.heartbeat(1)
    assert cluster.partition().isr == (1,)
    cluster.fence(1)
    topic_id = cluster.image.topic("t").topic_id
    previous = -1 if is_synced else copied  # the machine lost power since, or did not
    cluster.register(1, previous_broker_epoch=previous, recorded_broker_epoch=copied, synced_topics=(topic_id,))
    assert (cluster.partition().elr, cluster.partition().last_known_elr) == ((), (1,))


@pytest.mark.spec("P2")
def test_a_power_cut_before_a_registration_was_written_down_costs_no_synced_topic(cluster: Any) -> None:
    """Twice, and the registration that its disks name is still the one that it last lived under."""
    cluster.create("t", (1,), configs=(("flush.messages", "1"),))
    topic_id, written = cluster.image.topic("t").topic_id, cluster.epochs[1]
    for _ in range(3):
        cluster.fence(1)
        cluster.register(1, previous_broker_epoch=-1, recorded_broker_epoch=written, synced_topics=(topic_id,))
        assert cluster.partition().elr == (1,)


@pytest.mark.spec("P2")
@pytest.mark.parametrize(("previous", "elr"), [(-1, (1,)), (-2, ())])
def test_what_is_synced_survives_a_power_cut_but_not_a_changed_disk(
    cluster: Any, previous: int, elr: tuple[int, ...]
) -> None:
    synced = (("flush.messages", "1"),)
    cluster.create("t", (1,), configs=synced)
    cluster.create("u", (1,), configs=synced)  # the broker does not say that older records of it are synced, too
    cluster.fence(1)
    topic_id, recorded = cluster.image.topic("t").topic_id, cluster.epochs[1]
    cluster.register(1, previous_broker_epoch=previous, recorded_broker_epoch=recorded, synced_topics=(topic_id,))
    assert cluster.partition().elr == elr
    assert cluster.partition(topic="u").elr == ()


@pytest.mark.spec("P5")
def test_a_replica_that_is_not_named_as_whole_leaves_isr_and_elr(cluster: Any) -> None:
    """Its log is missing or damaged: the others have everything, and it is fetched again before it counts."""
    cluster.create("t", (1, 2, 3))
    cluster.create("u", (1, 2, 3))
    topic_id = cluster.image.topic("u").topic_id
    for broker_id in (3, 2, 1):
        cluster.fence(broker_id)
    assert cluster.partition().elr == (1,)
    cluster.register(1, whole=(ask.whole(topic_id, 0),))
    assert (cluster.partition().isr, cluster.partition().elr) == ((), ())
    assert cluster.partition(topic="u").elr == (1,)


@pytest.mark.spec("P5")
def test_when_no_replica_is_whole_who_led_last_leads_what_is_left(cluster: Any) -> None:
    cluster.create("t", (1, 2))
    for broker_id in (1, 2):
        cluster.fence(broker_id)
    for broker_id in (2, 1):
        cluster.register(broker_id, whole=())
    assert (cluster.partition().isr, cluster.partition().elr) == ((), ())
    (led_last,) = cluster.partition().last_known_elr
    cluster.heartbeat(2)
    cluster.heartbeat(1)
    assert cluster.partition().leader == led_last


def test_who_was_unregistered_by_mistake_leads_what_it_alone_has(cluster: Any) -> None:
    """A broker that starts is fenced, as a dead one is."""
    cluster.create("t", (1,))
    cluster.fence(1)
    cluster.ask(ask.unregister(1))
    assert (cluster.partition().leader, cluster.partition().isr) == (-1, ())
    cluster.register(1)
    cluster.heartbeat(1)
    assert (cluster.partition().leader, cluster.partition().isr) == (1, (1,))


def test_unregistering(cluster: Any) -> None:
    cluster.create("t", (1, 2))
    with pytest.raises(KafkaError, match="broker 1 is alive"):
        cluster.ask(ask.unregister(1))
    cluster.fence(1)
    assert cluster.ask(ask.unregister(1)).error_code == ErrorCode.NONE
    assert cluster.image.broker(1) is None
    with pytest.raises(KafkaError) as raised:
        cluster.ask(ask.unregister(1))
    assert raised.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED
