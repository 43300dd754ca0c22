"""The active controller: requests in, metadata records and parked responses out.

A request is the wire's own message, as a client or a broker sent it, and so is its response. One that fails as a whole
has no response: KafkaError is raised. Where it names several things, each has its own error in the response.

Contract with the driver, which owns the quorum and the clock:

* When this node becomes leader of the quorum and has replayed its log to the end, uncommitted records and the leader's
  own control record included, it calls :meth:`Controller.activate` with that image and the new epoch, and from then on
  is the only one who appends. When it is no longer leader it calls :meth:`Controller.deactivate`.
* The records of each outcome are appended to the metadata log as one atomic batch, in the order in which they came,
  also those that :meth:`activate` and :meth:`tick` return.
* A response leaves when everything that was appended up to it is committed, even if it brought no records itself: it
  may rest on those before it. If leadership is lost first it is answered NOT_CONTROLLER, and what became of the request
  is unknown.
* :meth:`Controller.tick` is called when :meth:`Controller.next_deadline_ms` has come; it changes with every call.

A request is carried out whole before the next: what it checked stays true. It changes nothing but by writing records,
which are replayed into the image at once, by the same code with which every node replays the log. So a KafkaError that
fails the request as a whole is raised before anything is written.

One that changes what every partition depends on, a broker's standing above all, looks at 100,000 of them. It does so in
portions (:meth:`Controller.in_portions`), so that the driver's loop does everything else between two of them, but for
the next request, which waits. The records are one batch all the same: no node ever acts on a part of them, and a
controller that is deposed in between has appended nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final, Generic, NamedTuple, TypeVar

from minikafka.config import BrokerConfig
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.controller import (
    brokers,
    configs,
    directories,
    elections,
    partitions,
    producer_ids,
    reassignments,
    topics,
)
from minikafka.metadata.controller.assignment import Rng
from minikafka.metadata.controller.state import NO_LIMIT, ControllerState
from minikafka.metadata.image import MetadataImage
from minikafka.metadata.records import METADATA_VERSION, ClusterIdRecord, MetadataVersionRecord, Record
from minikafka.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from minikafka.wire.messages.alter_partition import AlterPartitionRequest
from minikafka.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from minikafka.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from minikafka.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from minikafka.wire.messages.broker_registration import BrokerRegistrationRequest
from minikafka.wire.messages.create_partitions import CreatePartitionsRequest
from minikafka.wire.messages.create_topics import CreateTopicsRequest
from minikafka.wire.messages.delete_topics import DeleteTopicsRequest
from minikafka.wire.messages.elect_leaders import ElectLeadersRequest
from minikafka.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from minikafka.wire.messages.unregister_broker import UnregisterBrokerRequest
from minikafka.wire.schema import Message

T = TypeVar("T")

Answer = Message | Callable[[], Message]
"""A response, or what makes it of what was postponed."""
Timed = Callable[[ControllerState, Any, int], Answer]
Untimed = Callable[[ControllerState, Any], Answer]

_TIMED: Final[dict[type[Message], Timed]] = {
    BrokerRegistrationRequest: brokers.register,
    BrokerHeartbeatRequest: brokers.heartbeat,
}

_UNTIMED: Final[dict[type[Message], Untimed]] = {
    AllocateProducerIdsRequest: producer_ids.allocate_producer_ids,
    AlterPartitionReassignmentsRequest: reassignments.alter_partition_reassignments,
    AlterPartitionRequest: partitions.alter_partition,
    AssignReplicasToDirsRequest: directories.assign_replicas_to_dirs,
    CreatePartitionsRequest: topics.create_partitions,
    CreateTopicsRequest: topics.create_topics,
    DeleteTopicsRequest: topics.delete_topics,
    ElectLeadersRequest: elections.elect_leaders,
    IncrementalAlterConfigsRequest: configs.alter_configs,
    UnregisterBrokerRequest: brokers.unregister,
}


class Outcome(NamedTuple, Generic[T]):
    """Records to append, and the response to give once they are committed, of the request's response class."""

    records: tuple[Record, ...]
    response: T


Portions = Generator[None, None, Outcome[T]]


def _postponed(state: ControllerState) -> Generator[None, None, None]:
    """Write what the request postponed, with a pause between two portions."""
    while state.has_postponed:
        state.write_portion()
        if state.has_postponed:
            yield


def _whole(portions: Portions[T]) -> Outcome[T]:
    while True:
        try:
            next(portions)
        except StopIteration as end:
            outcome: Outcome[T] = end.value
            return outcome


class Controller:
    """The controller of one node; it does something only while it is the active one."""

    def __init__(
        self,
        node_id: int,
        cluster_id: str,
        config: BrokerConfig,
        rng: Rng,
        *,
        replicas_per_broker_max: int = NO_LIMIT,
    ) -> None:
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._config = config
        self._rng = rng
        self._replicas_per_broker_max = replicas_per_broker_max
        self._state: ControllerState | None = None
        self._next_rebalance_ms = 0

    @property
    def is_active(self) -> bool:
        """True between activation and deactivation."""
        return self._state is not None

    @property
    def image(self) -> MetadataImage:
        """The metadata with everything written here, committed or not. Only while active."""
        assert self._state is not None, "the controller is not active"
        return self._state.image

    def activate(self, image: MetadataImage, epoch: int, now_ms: int) -> tuple[Record, ...]:
        """Take over with that image, as leader in that epoch. The records of a new cluster's beginning, or none.

        Raises INCONSISTENT_CLUSTER_ID when the metadata log is another cluster's: a fatal mistake of configuration.
        """
        if image.cluster_id not in ("", self._cluster_id):
            raise KafkaError(
                ErrorCode.INCONSISTENT_CLUSTER_ID,
                f"the metadata log belongs to cluster {image.cluster_id!r}, this node to {self._cluster_id!r}",
            )
        state = self._state = ControllerState(
            self._config, self._rng, image, epoch, now_ms, self._replicas_per_broker_max
        )
        for broker in image.live_brokers():
            state.sessions.presume(broker.broker_id, now_ms)
        self._next_rebalance_ms = now_ms + self._rebalance_interval_ms
        if image.metadata_version < METADATA_VERSION:
            state.write(MetadataVersionRecord(METADATA_VERSION))
        if not image.cluster_id:
            state.write(ClusterIdRecord(self._cluster_id))
        configs.share_min_insync_replicas(state)
        for _ in _postponed(state):
            pass  # in one turn, once in the life of a cluster
        return state.take_written()

    def deactivate(self) -> None:
        """Another node leads: forget everything that was not in the log."""
        self._state = None

    def handle(self, request: Message, now_ms: int) -> Outcome[Any]:
        """Carry a request out. Raises KafkaError when it fails as a whole, NOT_CONTROLLER while not active."""
        return _whole(self.in_portions(request, now_ms))

    def in_portions(self, request: Message, now_ms: int) -> Portions[Any]:
        """As :meth:`handle`, with a pause between two portions. To be gone through before anything else is asked for,
        or given up for good, after :meth:`deactivate`."""
        state = self._state
        if state is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"node {self._node_id} is not the active controller")
        assert not state.has_postponed, f"{type(request).__name__} came before the last request was whole"
        state.sessions.advance(now_ms)
        try:
            response = self._dispatch(state, request, now_ms)
        except KafkaError:
            assert not state.take_written(), f"{type(request).__name__} failed after it wrote records"
            assert not state.has_postponed, f"{type(request).__name__} failed after it postponed some"
            raise
        yield from _postponed(state)
        return Outcome(state.take_written(), response() if callable(response) else response)

    @staticmethod
    def _dispatch(state: ControllerState, request: Message, now_ms: int) -> Answer:
        timed = _TIMED.get(type(request))
        return timed(state, request, now_ms) if timed is not None else _UNTIMED[type(request)](state, request)

    def expect_heartbeat(self, request: BrokerHeartbeatRequest, now_ms: int) -> None:
        """A heartbeat came, and waits until what came before it is whole: no tick before it ends the session. This may
        come between two portions."""
        if self._state is not None:
            brokers.expect_heartbeat(self._state, request, now_ms)

    def fence_gone(self, broker_id: int, broker_epoch: int, now_ms: int) -> tuple[Record, ...]:
        """The process of that registration is known to be gone: do not wait for its session to end."""
        return _whole(self.fence_gone_in_portions(broker_id, broker_epoch, now_ms)).records

    def fence_gone_in_portions(self, broker_id: int, broker_epoch: int, now_ms: int) -> Portions[None]:
        """As :meth:`fence_gone`, with pauses as in :meth:`in_portions`."""
        state = self._state
        if state is None:
            return Outcome((), None)
        assert not state.has_postponed, "a broker was gone before the last request was whole"
        state.sessions.advance(now_ms)
        brokers.fence_gone(state, broker_id, broker_epoch)
        yield from _postponed(state)
        return Outcome(state.take_written(), None)

    def tick(self, now_ms: int) -> tuple[Record, ...]:
        """Time passed: fence brokers whose sessions ended, give leadership back to preferred leaders."""
        return _whole(self.tick_in_portions(now_ms)).records

    def tick_in_portions(self, now_ms: int) -> Portions[None]:
        """As :meth:`tick`, with pauses as in :meth:`in_portions`."""
        state = self._state
        if state is None:
            return Outcome((), None)
        assert not state.has_postponed, "time passed before the last request was whole"
        state.sessions.advance(now_ms)
        brokers.expire_sessions(state, now_ms)
        yield from _postponed(state)
        if now_ms >= self._next_rebalance_ms:
            self._next_rebalance_ms = now_ms + self._rebalance_interval_ms
            if self._config.auto_leader_rebalance_enable:
                elections.rebalance_leaders(state)
        return Outcome(state.take_written(), None)

    def next_deadline_ms(self) -> int | None:
        """When to tick; None while not active."""
        if self._state is None:
            return None
        return min(self._state.sessions.next_deadline_ms(), self._next_rebalance_ms)

    @property
    def _rebalance_interval_ms(self) -> int:
        return self._config.leader_imbalance_check_interval_seconds * 1000
