"""The coordinator of a group or of a transactional id: finds the broker, calls it, and finds it again after a move."""

from __future__ import annotations

from typing import Final, TypeVar

from minikafka.client.broker_connection import PATIENCE_S
from minikafka.client.connections import Connections
from minikafka.client.errors import UnreachableError
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_NODE, Endpoint
from minikafka.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from minikafka.wire.schema import Message

R = TypeVar("R", bound=Message)

GROUP: Final = 0
TRANSACTION: Final = 1
FIND_TIMEOUT_S: Final = 5.0
_NAMES: Final = {GROUP: "group", TRANSACTION: "transactional id"}
_MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


class KeyCoordinator:
    """The coordinator of one key. Every call raises KafkaError; a retriable one may be repeated as it is."""

    def __init__(self, connections: Connections, key: str, key_type: int) -> None:
        self._connections = connections
        self._key = key
        self._key_type = key_type
        self._endpoint: Endpoint | None = None
        self.node_id = NO_NODE
        """Of the broker that was found last."""

    async def call(
        self,
        request: Message,
        response_type: type[R],
        *,
        purpose: str | None = None,
        timeout_s: float | None = None,
        patience_s: float = PATIENCE_S,
        at_most: int | None = None,
    ) -> R:
        """One attempt. Requests that the coordinator holds need a ``purpose``, and so a connection, of their own."""
        timeout_s = self._connections.request_timeout_s if timeout_s is None else timeout_s
        try:
            if self._endpoint is None:
                self._endpoint = await self._find()
            connection = await self._connections.to_endpoint(self._endpoint, purpose or _NAMES[self._key_type])
            return await connection.call(
                request, response_type, timeout_s=timeout_s, patience_s=patience_s, at_most=at_most
            )
        except KafkaError as error:
            if isinstance(error, UnreachableError) or error.code is ErrorCode.REQUEST_TIMED_OUT:
                self.forget()
            raise

    def check(self, code: int, doing: str) -> None:
        """Raise KafkaError for an error code in an answer; after a move the next call finds the coordinator again."""
        if not code:
            return
        error = ErrorCode.of(code)
        if error in _MOVED:
            self.forget()
        raise KafkaError(error, f"{_NAMES[self._key_type]} {self._key!r}: {doing} failed")

    def forget(self) -> None:
        """Find the coordinator again at the next call."""
        self._endpoint = None

    async def _find(self) -> Endpoint:
        request = FindCoordinatorRequest(key=self._key, key_type=self._key_type, coordinator_keys=[self._key])
        connection = await self._connections.to_any()
        answer = await connection.call(request, FindCoordinatorResponse, timeout_s=FIND_TIMEOUT_S)
        found = answer.coordinators[0] if answer.coordinators else answer
        self.check(found.error_code, "finding its coordinator")
        self.node_id = found.node_id
        return Endpoint(found.host, found.port)
