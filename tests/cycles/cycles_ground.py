"""A cluster whose time-outs are short, and requests to it over bare sockets, with names of the test's own."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from live_wire import Wire, batch, produce_request

from minikafka.errors import ErrorCode
from minikafka.testing import MiniKafka
from minikafka.wire.headers import encode_request
from minikafka.wire.messages.find_coordinator import FindCoordinatorRequest
from minikafka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.wire.schema import Message

SETTINGS: Final[dict[str, str | int]] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "replica.fetch.backoff.ms": 50,
    "super.users": "User:ANONYMOUS",
    "auto.create.topics.enable": "false",
    "broker.session.timeout.ms": 20_000,
    "connections.max.idle.ms": 20_000,
    "controller.quorum.fetch.timeout.ms": 20_000,
    "group.consumer.heartbeat.interval.ms": 200,
    "group.consumer.min.heartbeat.interval.ms": 200,
    "group.consumer.min.session.timeout.ms": 300,
    "group.consumer.session.timeout.ms": 300,
    "group.min.session.timeout.ms": 300,
    "log.cleaner.delete.retention.ms": 0,
    "log.cleaner.min.cleanable.ratio": 0.01,
    "log.retention.check.interval.ms": 300,
    "log.segment.delete.delay.ms": 0,
    "max.incremental.fetch.session.cache.slots": 10,
    "offsets.retention.check.interval.ms": 300,
    "offsets.topic.num.partitions": 1,
    "offsets.topic.segment.bytes": 4_096,
    "producer.id.expiration.ms": 1_000,
    "replica.fetch.wait.max.ms": 100,
    "replica.high.watermark.checkpoint.interval.ms": 500,
    "transaction.remove.expired.transaction.cleanup.interval.ms": 300,
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.segment.bytes": 4_096,
    "transactional.id.expiration.ms": 1_000,
}
GROUP, TRANSACTION = 0, 1
_AGAIN: Final = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
}
_TOO_LATE: Final = {
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.NON_EMPTY_GROUP,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.UNKNOWN_MEMBER_ID,
}
"""On a slow machine a time-out may come before the next request."""
TIMEOUT_S: Final = 30.0


class Named(Wire):
    """A connection whose client has a name."""

    def __init__(self, port: int, client_id: str = "cycles") -> None:
        super().__init__(port)
        self._client_id = client_id

    def send_body(self, key: int, version: int, body: bytes) -> None:
        self._correlation_id += 1
        self.send_bytes(encode_request(key, version, self._correlation_id, self._client_id, body))


class Ground:
    """A running cluster, and a connection to each of its nodes."""

    def __init__(self, kafka: MiniKafka) -> None:
        self.kafka = kafka
        self.nodes = sorted(kafka.cluster.node_ids)
        self._wires: dict[int, Named] = {}

    @property
    def directories(self) -> list[Path]:
        """The nodes' log directories."""
        layout = self.kafka.cluster.layout
        return [path for node in self.nodes for path in layout.data_directory(node).parent.glob("data*")]

    def wire(self, node: int, client_id: str = "cycles") -> Named:
        """A new connection."""
        return Named(self.kafka.cluster.layout.client_port(node), client_id)

    def to(self, node: int) -> Named:
        """The connection to that node."""
        if node not in self._wires:
            self._wires[node] = self.wire(node)
        return self._wires[node]

    def hang_up(self) -> None:
        """Close all connections."""
        for wire in self._wires.values():
            wire.socket.close()
        self._wires.clear()

    def ask(self, request: Message, version: int, node: int = 1) -> Any:
        """An answer, whatever it says."""
        return self.to(node).ask(request, version)

    def until(self, ask: Callable[[], Any], error_of: Callable[[Any], int], *also: ErrorCode) -> Any:
        """Ask until that is no error that passes; ``also``: errors that are as good as none."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            answer = ask()
            error = ErrorCode.of(error_of(answer))
            if error is ErrorCode.NONE or error in _TOO_LATE or error in also:
                return answer
            assert error in _AGAIN, f"{error.name}: {answer}"
            assert time.monotonic() < deadline, f"{error.name}: {answer}"
            time.sleep(0.01)

    def coordinator(self, key: str, kind: int = GROUP) -> int:
        """The node that coordinates this group, or transactional id."""
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        answer = self.until(lambda: self.ask(request, 4), lambda each: each.coordinators[0].error_code)
        return int(answer.coordinators[0].node_id)

    def coordinated(self, key: str, request: Message, version: int, *also: ErrorCode, kind: int = GROUP) -> Any:
        """The coordinator's answer."""

        def ask() -> Any:
            return self.ask(request, version, self.coordinator(key, kind))

        return self.until(ask, _error_of, *also)

    def create(self, topic: str, assignment: list[list[int]], **config: str) -> None:
        """A topic, which its leaders know."""
        self.to(1).create_topic(topic, assignment, **config)
        for node in {replicas[0] for replicas in assignment}:
            while not self.to(node).has_topic(topic):
                time.sleep(0.005)

    def leader(self, topic: str) -> int:
        """Of partition 0."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)

        def error_of(answer: Any) -> int:
            found = answer.topics[0]
            return int(found.error_code or found.partitions[0].error_code)

        return int(self.until(lambda: self.ask(request, 9), error_of).topics[0].partitions[0].leader_id)

    def produce(self, topic: str, *values: bytes, transactional_id: str | None = None, **producer: Any) -> int:
        """A batch to partition 0; its offset."""
        request = produce_request(topic, bytes(batch(*values, **producer)))
        request.transactional_id = transactional_id

        def ask() -> Any:
            return self.ask(request, 9, self.leader(topic)).responses[0].partition_responses[0]

        return int(self.until(ask, lambda each: each.error_code).base_offset)


def _error_of(answer: Any) -> int:
    """The first error in it, wherever it is."""
    if getattr(answer, "error_code", 0):
        return int(answer.error_code)
    for name in ("topics", "partitions", "results", "results_by_topic_v3_and_below", "results_by_partition", "members"):
        for each in getattr(answer, name, None) or ():
            if not isinstance(each, int) and (error := _error_of(each)):
                return error
    return int(getattr(answer, "partition_error_code", 0))
