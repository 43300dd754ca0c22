"""What handlers may ask of their node, each part by its name."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from minikafka.broker.control_plane import ControlPlane
from minikafka.broker.data_plane import DataPlane
from minikafka.broker.ports import Ports
from minikafka.broker.services import Services
from minikafka.broker.topic_encodings import TopicEncodings
from minikafka.config import BrokerConfig
from minikafka.metadata.effective import broker_config
from minikafka.metadata.image import MetadataImage
from minikafka.wire.hot import ProduceResponses


class Staged(Protocol):
    """A request whose batches are written at the end of the read event."""

    def on_written(self) -> None:
        """They are in the log, or failed."""


class Serving:
    """Made by the composition root; the ``node`` of each request's context."""

    def __init__(self, ports: Ports, control: ControlPlane, data: DataPlane, services: Services) -> None:
        self.config = ports.config
        self.cluster_id = ports.cluster_id
        self.identity = ports.identity
        self.clock = ports.clock
        self.tasks = ports.tasks
        self.metadata, self.controller = control.metadata, control.client
        self.store, self.replicas, self.moves, self.quotas = data.store, data.replicas, data.moves, data.quotas
        self.absences, self.groups = services.absences, services.groups
        self.fetch_sessions, self.producer_ids = services.fetch_sessions, services.producer_ids
        self.topic_creation, self.quorum = services.topic_creation, services.quorum
        self.lookups = services.lookups
        self.produced: list[Staged] = []
        self.produce_responses = ProduceResponses()
        self.topic_encodings = TopicEncodings()
        self._loop = ports.loop
        self._raft = control.raft

    @property
    def image(self) -> MetadataImage:
        """The cluster as this node has applied it."""
        return self.metadata.image

    def effective_config(self) -> BrokerConfig:
        """This node's settings with the dynamic ones on top."""
        return broker_config(self.image, self.config)

    def controller_id_for_clients(self) -> int:
        """A live node that carries out or forwards admin requests: the active controller if it is live, else this."""
        leader_id = self._raft.leader_id
        if leader_id is not None and self.image.is_live(leader_id):
            return leader_id
        return self.config.node_id

    def new_future(self) -> asyncio.Future[Any]:
        """A future of this node's loop."""
        return self._loop.create_future()

    def on_read_event_end(self) -> None:
        """A connection's frames were handled: write what they staged, then answer."""
        self.replicas.commit_staged()
        if self.produced:
            produced, self.produced = self.produced, []
            for staged in produced:
                staged.on_written()
