"""An active controller, the log it writes, and short words for its requests."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any
from uuid import UUID

import controller_requests as ask

from minikafka.config import BrokerConfig
from minikafka.metadata.controller.controller import Controller, Outcome
from minikafka.metadata.delta import replay_records
from minikafka.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionImage
from minikafka.metadata.records import Record, decode_record, encode_record
from minikafka.model import Endpoint, OffsetAndEpoch, TopicPartition
from minikafka.wire.forwarded import decode_answer, decode_forwarded, encode_answer, encode_forwarded
from minikafka.wire.messages.alter_partition import AlterPartitionResult, BrokerState
from minikafka.wire.messages.assign_replicas_to_dirs import PartitionResult
from minikafka.wire.messages.broker_heartbeat import BrokerHeartbeatResponse
from minikafka.wire.messages.create_topics import CreatableTopicResult
from minikafka.wire.messages.incremental_alter_configs import AlterConfigsResourceResponse
from minikafka.wire.schema import Message

CLUSTER = "cluster"


class Cluster:
    """A controller and the metadata log. Every record goes through its encoding, every request and response too, unless
    ``is_encoding`` is false. ``records`` are those written since somebody emptied it."""

    def __init__(self, **settings: object) -> None:
        self.config = BrokerConfig({name.replace("_", "."): value for name, value in settings.items()})
        self.now_ms = 1000
        self.epoch = 0
        self.image: MetadataImage = EMPTY_IMAGE
        self.epochs: dict[int, int] = {}
        self.incarnations = 0
        self.is_encoding = True
        self.records: list[Record] = []
        self.fail_over()

    def fail_over(self) -> None:
        """Another controller takes over, from what is in the log."""
        self.epoch += 1
        self.controller = Controller(1, CLUSTER, self.config, random.Random(self.epoch))
        # The leader of a new epoch begins it with a control record, which holds no metadata.
        self.image = replay_records(self.image, [], OffsetAndEpoch(self.image.offset + 1, self.epoch))
        self.log(self.controller.activate(self.image, self.epoch, self.now_ms))

    def log(self, records: tuple[Record, ...]) -> tuple[Record, ...]:
        self.records += records
        decoded = [decode_record(encode_record(record)) for record in records] if self.is_encoding else records
        last = OffsetAndEpoch(self.image.offset + len(records), self.epoch)
        self.image = replay_records(self.image, decoded, last)
        assert self.image == self.controller.image
        return records

    def handle(self, request: Message) -> Outcome:
        if not self.is_encoding:
            outcome = self.controller.handle(request, self.now_ms)
            self.log(outcome.records)
            return outcome
        forwarded = decode_forwarded(encode_forwarded(request))
        assert forwarded.request == request
        outcome = self.controller.handle(forwarded.request, self.now_ms)
        self.log(outcome.records)
        response = decode_answer(request, type(outcome.response), encode_answer(outcome.response, forwarded))
        assert response == outcome.response
        return outcome

    def ask(self, request: Message) -> Any:
        return self.handle(request).response

    def wait(self, milliseconds: int, *alive: int) -> None:
        """Time passes in steps of 100 ms, with heartbeats of the brokers that are alive."""
        for _ in range(milliseconds // 100):
            self.now_ms += 100
            for broker_id in alive:
                self.heartbeat(broker_id)
            self.log(self.controller.tick(self.now_ms))

    # -- brokers ----------------------------------------------------------------------------------------------------

    def register(self, number: int, rack: str | None = None, **changes: Any) -> int:
        self.incarnations += 1
        fields: dict[str, Any] = {
            "broker_id": number,
            "cluster_id": CLUSTER,
            "incarnation_id": UUID(int=self.incarnations),
            "listeners": {"CLIENT": Endpoint("localhost", 9000 + number)},
            "rack": rack,
            "previous_broker_epoch": self.epochs.get(number, -1),
        }
        broker_epoch: int = self.ask(ask.register(**(fields | changes))).broker_epoch
        self.epochs[number] = broker_epoch
        return broker_epoch

    def heartbeat(self, broker_id: int, *, at: int | None = None, **wishes: Any) -> BrokerHeartbeatResponse:
        offset = self.image.offset if at is None else at
        response = self.ask(ask.heartbeat(broker_id, self.epochs[broker_id], offset, **wishes))
        assert isinstance(response, BrokerHeartbeatResponse)
        return response

    def join(self, *broker_ids: int, racks: dict[int, str] | None = None) -> None:
        for broker_id in broker_ids:
            self.register(broker_id, (racks or {}).get(broker_id))
            self.heartbeat(broker_id)

    def fence(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            self.fence_gone(broker_id, self.epochs[broker_id])

    def fence_gone(self, broker_id: int, broker_epoch: int) -> None:
        self.log(self.controller.fence_gone(broker_id, broker_epoch, self.now_ms))

    # -- topics -----------------------------------------------------------------------------------------------------

    def create(self, name: str = "t", *replicas: tuple[int, ...], **fields: Any) -> CreatableTopicResult:
        topic = ask.topic(name, assignments=enumerate(replicas), **fields)
        result: CreatableTopicResult = self.ask(ask.create(topic)).topics[0]
        return result

    def partition(self, index: int = 0, topic: str = "t") -> PartitionImage:
        partition = self.image.partition(TopicPartition(topic, index))
        assert partition is not None
        return partition

    def propose(self, isr: Iterable[int | BrokerState], index: int = 0, **changes: Any) -> AlterPartitionResult:
        partition = self.partition(index)
        fields: dict[str, Any] = {
            "topic_id": self.image.topics_by_name["t"].topic_id,
            "partition": index,
            "leader_epoch": partition.leader_epoch,
            "partition_epoch": partition.partition_epoch,
            "isr": [ask.member(one, self.epochs.get(one, -1)) if isinstance(one, int) else one for one in isr],
        }
        proposer = changes.pop("by", partition.leader)
        proposal = ask.proposal(**(fields | changes))
        return ask.proposed(self.ask(ask.propose(proposer, self.epochs[proposer], proposal)))[0]

    def reassign(self, replicas: tuple[int, ...] | None, index: int = 0, topic: str = "t", **fields: Any) -> Any:
        """The result of one partition; None cancels."""
        return self.ask(ask.reassign(ask.wish(topic, (index, replicas)), **fields)).responses[0].partitions[0]

    def place(self, broker_id: int, directory: int, index: int = 0) -> PartitionResult:
        """The broker tells where its replica of "t" is."""
        topic_id = self.image.topics_by_name["t"].topic_id
        placed = ask.placed(topic_id, index, UUID(int=directory))
        return ask.assigned(self.ask(ask.assign(broker_id, self.epochs[broker_id], placed)))[0]

    def alter(self, topic: str, **settings: str) -> AlterConfigsResourceResponse:
        """Settings of a topic, or with "" of every broker."""
        operations = [(name.replace("_", "."), 0, value) for name, value in settings.items()]
        change = ask.change(2 if topic else 4, topic, *operations)
        result: AlterConfigsResourceResponse = self.ask(ask.alter(change)).responses[0]
        return result
