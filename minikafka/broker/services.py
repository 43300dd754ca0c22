"""Parts of a node for its handlers: those of the two planes, and those that only clients need."""

from __future__ import annotations

from uuid import UUID

from minikafka.broker.absences import Absences
from minikafka.broker.authorizer import Authorizer
from minikafka.broker.control_plane import ControlPlane
from minikafka.broker.data_plane import DataPlane
from minikafka.broker.drivers.groups import Groups
from minikafka.broker.drivers.transactions import Transactions
from minikafka.broker.key_change import KeyChange
from minikafka.broker.loggers import root_logger
from minikafka.broker.long_answers import LongAnswers
from minikafka.broker.lookups import Lookups
from minikafka.broker.parts import Parts
from minikafka.broker.patterns import Patterns
from minikafka.broker.peers import Peers
from minikafka.broker.ports import Ports
from minikafka.broker.producer_ids import ProducerIds
from minikafka.broker.quorum import Quorum
from minikafka.broker.staging import Staging
from minikafka.broker.topic_creation import TopicCreation
from minikafka.broker.topic_encodings import TopicEncodings
from minikafka.broker.transaction_admission import TransactionAdmission
from minikafka.broker.transaction_coordinators import TransactionCoordinators
from minikafka.metrics.requests import Requests
from minikafka.replication.session_cache import FetchSessionCache
from minikafka.wire.hot import ProduceResponses


def build_parts(ports: Ports, control: ControlPlane, data: DataPlane) -> Parts:
    """All parts for handlers."""
    config, metadata = ports.config, control.metadata
    peers = Peers(ports.identity, control.endpoint_of, control.liveness.doubt)
    producer_ids = ProducerIds(config.node_id, control.client, lambda: control.lifecycle.broker_epoch)
    transactions = Transactions(ports, data.replicas, lambda: metadata.image, peers, producer_ids)
    coordinators = TransactionCoordinators(transactions, ports.clock)

    def topic_name(topic_id: UUID) -> str | None:
        topic = metadata.image.topic_by_id(topic_id)
        return None if topic is None else topic.name

    patterns = Patterns(ports.threads.match, ports.clock.work_s)
    authorizer = Authorizer(config, ports.clock)
    return Parts(
        config,
        ports.identity,
        ports.clock,
        ports.tasks,
        metadata,
        control.client,
        data.store,
        data.replicas,
        data.moves,
        data.quotas,
        control.client_quotas,
        authorizer,
        root_logger,
        KeyChange(config, metadata, ports.tls, ports.threads.upkeep, ports.tasks),
        Absences(config.node_id, control.liveness.look),
        Groups(ports, data.replicas, lambda: metadata.image, patterns, authorizer),
        transactions,
        coordinators,
        TransactionAdmission(config.node_id, lambda: metadata.image, coordinators, peers),
        peers,
        FetchSessionCache(
            ports.rng,
            topic_name,
            data.replicas.waiting.followers,
            max_slots=config.max_incremental_fetch_session_cache_slots,
        ),
        TopicCreation(config, control.client, metadata),
        producer_ids,
        Quorum(config.node_id, control.raft, control.links, ports.clock),
        Lookups(ports.threads.read),
        patterns,
        LongAnswers(),
        Staging(data.replicas),
        ProduceResponses(),
        TopicEncodings(),
        Requests(),
    )
