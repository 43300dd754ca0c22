"""The active controller: requests in, metadata records and parked responses out.

A request is the wire's own message, from a client or a broker, and so is its response. A request that fails as a whole
raises KafkaError instead. If it names several resources, each has its own error in the response.

Contract with the driver, which owns the quorum and the clock:

* When this node leads the quorum and has replayed its log to the end, including uncommitted records and its own control
  record, the driver calls :meth:`Controller.activate` with that image and the new epoch. From then on only the driver
  appends. When the node no longer leads, the driver calls :meth:`Controller.deactivate`.
* The driver appends the records of each outcome to the metadata log as one atomic batch, in order, also those of
  :meth:`activate` and :meth:`tick`.
* A response leaves once all records appended up to it are committed, even if it has no records itself: it may depend on
  earlier ones. If leadership is lost first, the answer is NOT_CONTROLLER, and the outcome of the request is unknown.
* The driver calls :meth:`Controller.tick` at :meth:`Controller.next_deadline_ms`, which may change with every call.

Requests are carried out one after another: checked preconditions stay true. A request changes state only by records.
They are replayed into the image at once, by the code with which every node replays the log. So a KafkaError for the
whole request is raised before its first record.

Some requests affect every partition, above all a change of a broker's standing, and there may be 100,000 partitions.
They are carried out in portions (:meth:`Controller.in_portions`): the driver's loop turns between two of them, and only
the next request waits. The records are still one batch: no node acts on a part of them, and a controller that is
deposed in between has appended none.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, Final, Generic, NamedTuple, TypeVar

from minikafka.config import BrokerConfig
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.controller import (
    acls,
    brokers,
    client_quotas,
    configs,
    directories,
    elections,
    features,
    partitions,
    producer_ids,
    reassignments,
    scram,
    topics,
)
from minikafka.metadata.controller.assignment import Rng
from minikafka.metadata.controller.balancing import BalanceTimer
from minikafka.metadata.controller.state import NO_LIMIT, AcceptPartitions, ControllerState, accept_all
from minikafka.metadata.image import MetadataImage
from minikafka.metadata.records import (
    METADATA_VERSION,
    BrokerChangeRecord,
    ClusterIdRecord,
    MetadataVersionRecord,
    Record,
)
from minikafka.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from minikafka.wire.messages.alter_client_quotas import AlterClientQuotasRequest
from minikafka.wire.messages.alter_configs import AlterConfigsRequest
from minikafka.wire.messages.alter_partition import AlterPartitionRequest
from minikafka.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from minikafka.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from minikafka.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from minikafka.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from minikafka.wire.messages.broker_registration import BrokerRegistrationRequest
from minikafka.wire.messages.create_acls import CreateAclsRequest
from minikafka.wire.messages.create_partitions import CreatePartitionsRequest
from minikafka.wire.messages.create_topics import CreateTopicsRequest
from minikafka.wire.messages.delete_acls import DeleteAclsRequest
from minikafka.wire.messages.delete_topics import DeleteTopicsRequest
from minikafka.wire.messages.elect_leaders import ElectLeadersRequest
from minikafka.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from minikafka.wire.messages.unregister_broker import UnregisterBrokerRequest
from minikafka.wire.messages.update_features import UpdateFeaturesRequest
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
    AlterClientQuotasRequest: client_quotas.alter_client_quotas,
    AlterConfigsRequest: configs.replace_configs,
    AllocateProducerIdsRequest: producer_ids.allocate_producer_ids,
    AlterPartitionReassignmentsRequest: reassignments.alter_partition_reassignments,
    AlterPartitionRequest: partitions.alter_partition,
    AlterUserScramCredentialsRequest: scram.alter_user_scram_credentials,
    AssignReplicasToDirsRequest: directories.assign_replicas_to_dirs,
    CreateAclsRequest: acls.create_acls,
    CreatePartitionsRequest: topics.create_partitions,
    CreateTopicsRequest: topics.create_topics,
    DeleteAclsRequest: acls.delete_acls,
    DeleteTopicsRequest: topics.delete_topics,
    ElectLeadersRequest: elections.elect_leaders,
    IncrementalAlterConfigsRequest: configs.alter_configs,
    UnregisterBrokerRequest: brokers.unregister,
    UpdateFeaturesRequest: features.update_features,
}


class Outcome(NamedTuple, Generic[T]):
    """Records to append, and the response for when they are committed."""

    records: tuple[Record, ...]
    response: T


Portions = Generator[None, None, Outcome[T]]


def _postponed(state: ControllerState) -> Generator[None, None, None]:
    """Write the postponed part of the request, with a pause between two portions."""
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
    """The controller of one node. It handles requests only while it is active."""

    def __init__(
        self,
        node_id: int,
        cluster_id: str,
        config: BrokerConfig,
        rng: Rng,
        *,
        replicas_per_broker_max: int = NO_LIMIT,
        first_records: Callable[[], Iterable[Record]] = tuple,
    ) -> None:
        """``first_records``: what a new cluster has beside its identity, asked for once in its life."""
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._config = config
        self._rng = rng
        self._replicas_per_broker_max = replicas_per_broker_max
        self._first_records = first_records
        self._state: ControllerState | None = None
        self._balance = BalanceTimer(self._balance_interval_ms, 0)

    @property
    def is_active(self) -> bool:
        """True between activation and deactivation."""
        return self._state is not None

    @property
    def image(self) -> MetadataImage:
        """The metadata with all records written here, committed or not. Only while active."""
        assert self._state is not None, "the controller is not active"
        return self._state.image

    def activate(self, image: MetadataImage, epoch: int, now_ms: int) -> tuple[Record, ...]:
        """Take over with that image, as leader of that epoch. Returns the first records of a new cluster, or none.

        Raises KafkaError(INCONSISTENT_CLUSTER_ID) for the metadata log of another cluster: a fatal configuration error.
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
        self._balance = BalanceTimer(self._balance_interval_ms, now_ms)
        if image.metadata_version < METADATA_VERSION:
            state.write(MetadataVersionRecord(METADATA_VERSION))
        if not image.cluster_id:
            state.write(ClusterIdRecord(self._cluster_id))
            features.finalise_all(state)
            state.write(*self._first_records())
        configs.share_min_insync_replicas(state)
        for _ in _postponed(state):
            pass  # in one turn, once in the life of a cluster
        return state.take_written()

    def deactivate(self) -> None:
        """Another node leads: drop the image and all sessions."""
        self._state = None

    def handle(self, request: Message, now_ms: int, accept_partitions: AcceptPartitions = accept_all) -> Outcome[Any]:
        """Carry out a request. Raises KafkaError when it fails as a whole; NOT_CONTROLLER while not active."""
        return _whole(self.in_portions(request, now_ms, accept_partitions))

    def in_portions(
        self, request: Message, now_ms: int, accept_partitions: AcceptPartitions = accept_all
    ) -> Portions[Any]:
        """As :meth:`handle`, with a pause between two portions. The caller exhausts it before the next request, or
        gives it up for good after :meth:`deactivate`. ``accept_partitions``: the quota of whoever asks."""
        state = self._state
        if state is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"node {self._node_id} is not the active controller")
        assert not state.has_postponed, f"{type(request).__name__} came before the last request was whole"
        state.sessions.advance(now_ms)
        state.accept_partitions = accept_partitions
        try:
            response = self._dispatch(state, request, now_ms)
        except KafkaError:
            assert not state.take_written(), f"{type(request).__name__} failed after it wrote records"
            assert not state.has_postponed, f"{type(request).__name__} failed after it postponed some"
            raise
        yield from _postponed(state)
        written = state.take_written()
        if any(isinstance(record, BrokerChangeRecord) and record.fenced is False for record in written):
            self._balance.on_return(now_ms)
        return Outcome(written, response() if callable(response) else response)

    @staticmethod
    def _dispatch(state: ControllerState, request: Message, now_ms: int) -> Answer:
        timed = _TIMED.get(type(request))
        return timed(state, request, now_ms) if timed is not None else _UNTIMED[type(request)](state, request)

    def expect_heartbeat(self, request: BrokerHeartbeatRequest, now_ms: int) -> None:
        """A heartbeat came and waits for the request under way: until it is handled, no tick ends the session. The call
        may
        come between two portions."""
        if self._state is not None:
            brokers.expect_heartbeat(self._state, request, now_ms)

    def fence_gone(self, broker_id: int, broker_epoch: int, now_ms: int) -> tuple[Record, ...]:
        """The process of that registration is gone: end its session now."""
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
        if self._balance.is_due(now_ms) and self._config.auto_leader_rebalance_enable:
            elections.rebalance_leaders(state)
        return Outcome(state.take_written(), None)

    def next_deadline_ms(self) -> int | None:
        """The time of the next tick; None while not active."""
        if self._state is None:
            return None
        return min(self._state.sessions.next_deadline_ms(), self._balance.deadline_ms)

    @property
    def _balance_interval_ms(self) -> int:
        return self._config.leader_imbalance_check_interval_seconds * 1000
