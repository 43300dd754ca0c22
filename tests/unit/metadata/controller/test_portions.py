"""Requests that touch every partition, in portions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import controller_requests as ask
import pytest

from minikafka.config import BrokerConfig, TopicConfig
from minikafka.errors import ErrorCode
from minikafka.metadata.controller import state as state_module
from minikafka.metadata.controller.configs import AlterConfigOp
from minikafka.metadata.controller.controller import Outcome, Portions
from minikafka.metadata.controller.elections import ElectionType
from minikafka.metadata.controller.state import PORTION, ControllerState
from minikafka.metadata.controller.topics import TOPICS_AT_ONCE
from minikafka.metadata.image import MetadataImage, PartitionImage, TopicImage
from minikafka.metadata.records import PartitionChangeRecord, PartitionRecord, Record, TopicRecord
from minikafka.model import TopicPartition
from minikafka.wire.messages.alter_partition import BrokerState
from minikafka.wire.schema import Message

PARTITIONS = 3 * PORTION + 7


@dataclass
class Looked:
    """How often the controller looked at a partition."""

    count: int = 0


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> Looked:
    found, partitions = Looked(), MetadataImage.partitions

    def counted(image: MetadataImage) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
        for one in partitions(image):
            found.count += 1
            yield one

    monkeypatch.setattr(MetadataImage, "partitions", counted)
    return found


def fill(cluster: Any) -> None:
    """Two topics. Each partition is on all brokers, and led by one in turn."""
    records: list[Record] = []
    for topic_id in (UUID(int=7), UUID(int=8)):
        records.append(TopicRecord(f"t{topic_id.int}", topic_id))
        for index in range(PARTITIONS // 2):
            replicas = tuple((index + place) % 3 + 1 for place in range(3))
            records.append(PartitionRecord(topic_id, index, replicas, replicas, replicas[0], 0, 0))
    cluster.is_encoding = False
    cluster.controller._state.write(*records)
    cluster.log(cluster.controller._state.take_written())


def gone_through(portions: Portions[Any], check: Callable[[], None]) -> tuple[int, Outcome[Any]]:
    """How many portions there are, and what comes of them; ``check`` is called after each."""
    for count in itertools.count(1):
        try:
            next(portions)
        except StopIteration as end:
            check()
            return count, end.value
        check()
    raise AssertionError


def fence(cluster: Any) -> Portions[Any]:
    return cluster.controller.fence_gone_in_portions(2, cluster.epochs[2], cluster.now_ms)


def unfence(cluster: Any) -> Portions[Any]:
    cluster.fence(2)
    return asked(cluster, ask.heartbeat(2, cluster.epochs[2], cluster.image.offset))


def register(cluster: Any) -> Portions[Any]:
    """After a loss of power: it leaves ISR and ELR of every partition."""
    cluster.fence(2)
    listeners = cluster.image.brokers[2].listeners
    return asked(cluster, ask.register(listeners, broker_id=2, cluster_id="cluster", incarnation_id=UUID(int=99)))


def unregister(cluster: Any) -> Portions[Any]:
    cluster.fence(2)
    return asked(cluster, ask.unregister(2))


def fail_directory(cluster: Any) -> Portions[Any]:
    broker = cluster.image.brokers[2]
    offline = broker.log_dirs[:1]
    return asked(cluster, ask.heartbeat(2, broker.broker_epoch, cluster.image.offset, offline_log_dirs=offline))


def raise_minimum(cluster: Any) -> Portions[Any]:
    return asked(cluster, ask.alter(ask.change(4, "", ("min.insync.replicas", AlterConfigOp.SET, "2"))))


def elect(cluster: Any) -> Portions[Any]:
    """Of a third of the partitions another broker leads than should."""
    cluster.fence(2)
    cluster.heartbeat(2)
    topics = cluster.image.topics()
    isr = (1, 2, 3)
    records = [PartitionChangeRecord(topic.topic_id, index, isr=isr) for topic in topics for index in topic.partitions]
    cluster.controller._state.write(*records)
    cluster.log(cluster.controller._state.take_written())
    return asked(cluster, ask.elect(ElectionType.PREFERRED))


def elect_named(cluster: Any) -> Portions[Any]:
    named = [TopicPartition(topic.name, index) for topic, index, _ in cluster.image.partitions()]
    elect(cluster).close()
    return asked(cluster, ask.elect(ElectionType.PREFERRED, named))


def reassign(cluster: Any) -> Portions[Any]:
    """The replicas of every partition in another order."""
    topics = [
        ask.wish(t.name, *((i, p.replicas[::-1]) for i, p in t.partitions.items())) for t in cluster.image.topics()
    ]
    return asked(cluster, ask.reassign(*topics))


def place(cluster: Any) -> Portions[Any]:
    broker = cluster.image.brokers[2]
    placed = (ask.placed(topic.topic_id, index, UUID(int=202)) for topic, index, _ in cluster.image.partitions())
    return asked(cluster, ask.assign(2, broker.broker_epoch, *placed))


def propose(cluster: Any) -> Portions[Any]:
    """The leader of every partition drops a follower."""
    images = cluster.image.partitions()
    records = [PartitionChangeRecord(topic.topic_id, index, leader=1) for topic, index, _ in images]
    cluster.controller._state.write(*records)
    cluster.log(cluster.controller._state.take_written())
    isr = [BrokerState(broker_id=member, broker_epoch=cluster.epochs[member]) for member in (1, 2)]
    proposals = (ask.proposal(topic.topic_id, index, 1, 1, isr) for topic, index, _ in cluster.image.partitions())
    return asked(cluster, ask.propose(1, cluster.epochs[1], *proposals))


def asked(cluster: Any, request: Message) -> Portions[Any]:
    portions: Portions[Any] = cluster.controller.in_portions(request, cluster.now_ms)
    return portions


@pytest.mark.parametrize(
    "begin",
    [fence, unfence, register, unregister, fail_directory, raise_minimum, elect, elect_named, reassign, place, propose],
)
def test_a_request_looks_at_so_many_partitions_in_a_portion(
    cluster: Any, looked: Looked, monkeypatch: pytest.MonkeyPatch, begin: Callable[[Any], Portions[Any]]
) -> None:
    cluster.fence(2)
    cluster.register(2, log_dirs=(UUID(int=201), UUID(int=202)))
    cluster.heartbeat(2)
    fill(cluster)
    portions = begin(cluster)
    written: list[int] = []
    write = ControllerState.write

    def counted(state: ControllerState, *records: Record) -> None:
        written.append(len(records))
        write(state, *records)

    monkeypatch.setattr(ControllerState, "write", counted)

    def check() -> None:
        assert looked.count <= PORTION
        assert sum(written) <= PORTION + 1, "and it writes of no others"
        looked.count = 0
        written.clear()

    looked.count = 0
    count, outcome = gone_through(portions, check)
    assert count >= PARTITIONS // PORTION
    cluster.log(outcome.records)


def test_a_minimum_for_all_looks_at_the_settings_of_so_many_topics_in_a_portion(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    records: list[Record] = []
    for number in range(3 * PORTION):
        topic_id = UUID(int=number + 1)
        records.append(TopicRecord(f"t{number}", topic_id))
        records.append(PartitionRecord(topic_id, 0, (1, 2, 3), (1, 2, 3), 1, 0, 0))
    cluster.is_encoding = False
    cluster.controller._state.write(*records)
    cluster.log(cluster.controller._state.take_written())
    made: list[str] = []
    config = cluster.controller._state.config
    assert cluster.controller._state.config is config, "it is asked for every topic"

    def counted(own: Mapping[str, str], broker: BrokerConfig) -> TopicConfig:
        made.append("")
        return TopicConfig(own, broker)

    monkeypatch.setattr(state_module, "TopicConfig", counted)

    def check() -> None:
        assert len(made) <= PORTION
        made.clear()

    _, outcome = gone_through(raise_minimum(cluster), check)
    renewed = [one.topic_id for one in outcome.records if isinstance(one, PartitionChangeRecord)]
    assert len(renewed) == len(set(renewed)) == 3 * PORTION


def test_what_is_done_in_portions_is_what_is_done_at_once(cluster: Any) -> None:
    fill(cluster)
    before = cluster.image
    records = cluster.controller.fence_gone(2, cluster.epochs[2], cluster.now_ms)
    cluster.log(records)
    changed = [(one.topic_id, one.partition) for one in records if isinstance(one, PartitionChangeRecord)]
    assert sorted(changed) == sorted((topic.topic_id, index) for topic, index, _ in before.partitions())
    for _topic, index, partition in cluster.image.partitions():
        assert 2 not in partition.isr
        assert partition.leader == next(one for one in partition.replicas if one != 2), index


def test_sessions_that_end_are_acted_on_in_portions(cluster: Any, looked: Looked) -> None:
    fill(cluster)
    cluster.now_ms += 4_500

    def check() -> None:
        assert looked.count <= PORTION
        looked.count = 0

    looked.count = 0
    for _ in range(5):
        cluster.now_ms += 1_000
        for broker_id in (1, 3):
            cluster.heartbeat(broker_id)
        looked.count = 0
        _, outcome = gone_through(cluster.controller.tick_in_portions(cluster.now_ms), check)
        cluster.log(outcome.records)
    assert cluster.image.brokers[2].fenced
    assert all(partition.leader != 2 for _, _, partition in cluster.image.partitions())


def test_many_topics_are_created_in_portions_and_in_one_batch(cluster: Any) -> None:
    """Also those that collide with one of an earlier portion."""
    names = [*(f"of.{number}" for number in range(2 * TOPICS_AT_ONCE + 7)), "of_3"]
    portions = asked(cluster, ask.create(*(ask.topic(name, num_partitions=2) for name in names)))
    count, outcome = gone_through(portions, lambda: None)
    assert count == 3
    refused = [result for result in outcome.response.topics if result.error_code]
    assert [(result.name, result.error_code) for result in refused] == [("of_3", ErrorCode.INVALID_TOPIC_EXCEPTION)]
    cluster.log(outcome.records)
    assert sorted(cluster.image.topics_by_name) == sorted(names[:-1])

    more = ask.extend(*(ask.more(name, 3) for name in names[:-1]))
    count, outcome = gone_through(asked(cluster, more), lambda: None)
    assert (count, {result.error_code for result in outcome.response.results}) == (3, {0})
    cluster.log(outcome.records)
    assert all(len(topic.partitions) == 3 for topic in cluster.image.topics())


def test_no_request_is_carried_out_before_the_last_is_whole(cluster: Any) -> None:
    fill(cluster)
    next(unregister(cluster))
    with pytest.raises(AssertionError, match="came before the last request was whole"):
        cluster.heartbeat(1)


def test_a_controller_that_is_deposed_in_between_is_forgotten_with_its_half_request(cluster: Any) -> None:
    fill(cluster)
    before = cluster.image
    next(fence(cluster))
    cluster.controller.deactivate()
    cluster.fail_over()
    assert cluster.image.topics_by_name == before.topics_by_name
    assert not cluster.image.brokers[2].fenced
    cluster.fence(2)
    assert all(partition.leader != 2 for _, _, partition in cluster.image.partitions())
