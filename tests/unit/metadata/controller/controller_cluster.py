"""An active controller, the log it writes, and short words for its commands."""

from __future__ import annotations

import random
from typing import Any
from uuid import UUID

from minikafka.config import BrokerConfig
from minikafka.metadata.controller import commands as ask
from minikafka.metadata.controller.controller import Controller, Outcome
from minikafka.metadata.delta import apply_records
from minikafka.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionImage
from minikafka.metadata.records import Record, decode_record, encode_record
from minikafka.model import Endpoint, OffsetAndEpoch, TopicPartition

CLUSTER = "cluster"


class Cluster:
    """A controller and the metadata log. Every record goes through its encoding, every command and response too, unless
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
        self.image, _ = apply_records(self.image, [], OffsetAndEpoch(self.image.offset + 1, self.epoch))
        self.log(self.controller.activate(self.image, self.epoch, self.now_ms))

    def log(self, records: tuple[Record, ...]) -> tuple[Record, ...]:
        self.records += records
        decoded = [decode_record(encode_record(record)) for record in records] if self.is_encoding else records
        last = OffsetAndEpoch(self.image.offset + len(records), self.epoch)
        self.image, _ = apply_records(self.image, decoded, last)
        assert self.image == self.controller.image
        return records

    def handle(self, command: ask.Command[Any]) -> Outcome[Any]:
        assert not self.is_encoding or ask.decode_command(command.to_wire()) == command
        outcome = self.controller.handle(command, self.now_ms)
        self.log(outcome.records)
        assert not self.is_encoding or ask.decode_response(command, outcome.response.to_wire()) == outcome.response
        return outcome

    def ask(self, command: ask.Command[Any]) -> Any:
        return self.handle(command).response

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
        broker_epoch: int = self.ask(ask.RegisterBroker(**(fields | changes))).broker_epoch
        self.epochs[number] = broker_epoch
        return broker_epoch

    def heartbeat(self, broker_id: int, *, at: int | None = None, **wishes: bool) -> ask.BrokerHeartbeatResponse:
        offset = self.image.offset if at is None else at
        response: ask.BrokerHeartbeatResponse = self.ask(
            ask.BrokerHeartbeat(broker_id, self.epochs[broker_id], offset, **wishes)
        )
        return response

    def join(self, *broker_ids: int, racks: dict[int, str] | None = None) -> None:
        for broker_id in broker_ids:
            self.register(broker_id, (racks or {}).get(broker_id))
            self.heartbeat(broker_id)

    def fence(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            self.ask(ask.FenceBroker(broker_id, self.epochs[broker_id]))

    # -- topics -----------------------------------------------------------------------------------------------------

    def create(self, name: str = "t", *replicas: tuple[int, ...], **fields: Any) -> ask.CreateTopicsResult:
        assignments = tuple(ask.ReplicaAssignment(index, one) for index, one in enumerate(replicas))
        topic = ask.NewTopic(name, assignments=assignments, **fields)
        result: ask.CreateTopicsResult = self.ask(ask.CreateTopics((topic,))).topics[0]
        return result

    def partition(self, index: int = 0, topic: str = "t") -> PartitionImage:
        partition = self.image.partition(TopicPartition(topic, index))
        assert partition is not None
        return partition

    def propose(self, isr: tuple[int, ...], index: int = 0, **changes: Any) -> ask.AlterPartitionResult:
        partition = self.partition(index)
        fields: dict[str, Any] = {
            "topic_id": self.image.topics_by_name["t"].topic_id,
            "partition": index,
            "leader_epoch": partition.leader_epoch,
            "partition_epoch": partition.partition_epoch,
            "new_isr": tuple(ask.IsrMember(one, self.epochs.get(one, -1)) for one in isr),
        }
        proposer = changes.pop("by", partition.leader)
        change = ask.IsrChange(**(fields | changes))
        result: ask.AlterPartitionResult = self.ask(
            ask.AlterPartition(proposer, self.epochs[proposer], (change,))
        ).partitions[0]
        return result

    def reassign(self, replicas: tuple[int, ...] | None, index: int = 0, topic: str = "t", **fields: Any) -> Any:
        """The result of one partition; None cancels."""
        wish = ask.ReassignTopic(topic, (ask.ReassignPartition(index, replicas),))
        return self.ask(ask.AlterPartitionReassignments((wish,), **fields)).results[0].partitions[0]

    def place(self, broker_id: int, directory: int, index: int = 0) -> ask.DirectoryAssignmentResult:
        """The broker tells where its replica of "t" is."""
        topic_id = self.image.topics_by_name["t"].topic_id
        assignment = ask.DirectoryAssignment(topic_id, index, UUID(int=directory))
        command = ask.AssignReplicasToDirs(broker_id, self.epochs[broker_id], (assignment,))
        result: ask.DirectoryAssignmentResult = self.ask(command).results[0]
        return result

    def alter(self, topic: str, **settings: str) -> ask.AlterConfigsResult:
        """Settings of a topic, or with "" of every broker."""
        operations = tuple(ask.ConfigOperation(name.replace("_", "."), 0, value) for name, value in settings.items())
        alteration = ask.ConfigAlteration(2 if topic else 4, topic, operations)
        result: ask.AlterConfigsResult = self.ask(ask.IncrementalAlterConfigs((alteration,))).resources[0]
        return result
