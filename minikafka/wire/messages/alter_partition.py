"""AlterPartition (API key 56): a leader proposes ISRs, the controller commits or refuses them (row R20)."""

from __future__ import annotations

from uuid import UUID

from minikafka.wire.schema import Message, array, int8, int16, int32, int64, string, uuid


class BrokerState(Message):
    """A proposed member of an ISR. ``broker_epoch`` is the one its fetches carried (KIP-903); -1 when the leader has
    not heard it, which is accepted only of a broker that is in the ISR already."""

    broker_id: int = int32("3+")
    broker_epoch: int = int64("3+", default=-1)


class AlterPartitionData(Message):
    """The proposal for one partition, from the epochs its leader knows."""

    partition_index: int = int32("0+")
    leader_epoch: int = int32("0+")
    new_isr_with_epochs: list[BrokerState] = array(BrokerState, "3+")
    leader_recovery_state: int = int8("1+")
    partition_epoch: int = int32("0+")


class AlterPartitionTopic(Message):
    topic_id: UUID = uuid("2+")
    partitions: list[AlterPartitionData] = array(AlterPartitionData, "0+")


class AlterPartitionRequest(Message, versions="3", flexible="0+"):
    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+", default=-1)
    topics: list[AlterPartitionTopic] = array(AlterPartitionTopic, "0+")


class AlterPartitionResult(Message):
    """The state after the proposal, or why it changed nothing; ``error_message`` is our own field."""

    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    leader_id: int = int32("0+", default=-1)
    leader_epoch: int = int32("0+", default=-1)
    isr: list[int] = array(int32, "0+")
    leader_recovery_state: int = int8("1+")
    partition_epoch: int = int32("0+", default=-1)
    error_message: str | None = string("0+", nullable="0+", default=None, tag=10_000)


class AlterPartitionTopicResult(Message):
    topic_id: UUID = uuid("2+")
    partitions: list[AlterPartitionResult] = array(AlterPartitionResult, "0+")


class AlterPartitionResponse(Message, versions="3", flexible="0+"):
    """One result per proposal, in order."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    topics: list[AlterPartitionTopicResult] = array(AlterPartitionTopicResult, "0+")
