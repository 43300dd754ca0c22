"""What a node does for clients beside producing and fetching, and the listeners through which all is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from minikafka.broker.absences import Absences
from minikafka.broker.control_plane import ControlPlane
from minikafka.broker.data_plane import DataPlane
from minikafka.broker.drivers.groups import Groups
from minikafka.broker.lookups import Lookups
from minikafka.broker.ports import Ports
from minikafka.broker.producer_ids import ProducerIds
from minikafka.broker.quorum import Quorum
from minikafka.broker.topic_creation import TopicCreation
from minikafka.replication.session_cache import FetchSessionCache


@dataclass(frozen=True, slots=True)
class Services:
    """Its parts, by what they are to the node."""

    absences: Absences
    groups: Groups
    fetch_sessions: FetchSessionCache
    topic_creation: TopicCreation
    producer_ids: ProducerIds
    quorum: Quorum
    lookups: Lookups


def build_services(ports: Ports, control: ControlPlane, data: DataPlane) -> Services:
    """What handlers ask beside the image, the replicas and the controller."""
    config, metadata = ports.config, control.metadata

    def topic_name(topic_id: UUID) -> str | None:
        topic = metadata.image.topic_by_id(topic_id)
        return None if topic is None else topic.name

    return Services(
        Absences(config.node_id, control.liveness.look),
        Groups(ports, data.replicas, lambda: metadata.image),
        FetchSessionCache(ports.rng, topic_name, max_slots=config.max_incremental_fetch_session_cache_slots),
        TopicCreation(config, control.client, metadata),
        ProducerIds(config.node_id, control.client, lambda: control.lifecycle.broker_epoch),
        Quorum(config.node_id, control.raft, control.links, ports.clock),
        Lookups(ports.threads.read),
    )
