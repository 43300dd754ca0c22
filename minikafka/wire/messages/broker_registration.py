"""BrokerRegistration (API key 62): a broker process introduces itself to the controller."""

from __future__ import annotations

from uuid import UUID

from minikafka.wire.schema import Message, array, boolean, int16, int32, int64, string, uint16, uuid


class Listener(Message):
    name: str = string("0+")
    host: str = string("0+")
    port: int = uint16("0+")
    security_protocol: int = int16("0+")


class Feature(Message):
    name: str = string("0+")
    min_supported_version: int = int16("0+")
    max_supported_version: int = int16("0+")


class TopicReplicas(Message):
    """Some replicas of a broker, by topic."""

    topic_id: UUID = uuid("0+")
    partitions: list[int] = array(int32, "0+")


class BrokerRegistrationRequest(Message, versions="4", flexible="0+"):
    """``incarnation_id`` is new for each process, ``log_dirs`` are the ids of its online log directories (KIP-858).

    ``previous_broker_epoch`` names the registration under which what is on its disks was written, if nothing of it can
    be lost: its process was stopped in order, or killed while the machine ran on. -1 when what was not synced may be
    lost, by a power cut: it leaves ISRs and ELRs then, but of ``synced_topics``, of which its logs hold nothing that
    was not synced (KIP-966). Less when anything may be lost: a disk was changed.

    The tagged fields are our own. ``recorded_broker_epoch`` is the registration that its log directories name, whatever
    was lost of it. If the broker has lived under a later one, they are an older copy, put back: nothing in them counts,
    ``synced_topics`` neither. ``whole`` names the replicas whose logs are there and undamaged. Every other replica of
    the broker leaves ISR and ELR with the registration: its log is missing, damaged, or cannot be told to be its own.
    None: not told.
    """

    broker_id: int = int32("0+")
    cluster_id: str = string("0+")
    incarnation_id: UUID = uuid("0+")
    listeners: list[Listener] = array(Listener, "0+")
    features: list[Feature] = array(Feature, "0+")
    rack: str | None = string("0+", nullable="0+", default=None)
    is_migrating_zk_broker: bool = boolean("1+")
    log_dirs: list[UUID] = array(uuid, "2+")
    previous_broker_epoch: int = int64("3+", default=-1)
    synced_topics: list[UUID] = array(uuid, "0+", tag=10_000)
    whole: list[TopicReplicas] | None = array(TopicReplicas, "0+", nullable="0+", default=None, tag=10_001)
    recorded_broker_epoch: int = int64("0+", default=-1, tag=10_002)


class BrokerRegistrationResponse(Message, versions="4", flexible="0+"):
    """``broker_epoch`` names this registration in everything the broker sends from now on."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    broker_epoch: int = int64("0+", default=-1)
