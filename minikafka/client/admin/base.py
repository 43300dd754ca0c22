"""What all admin calls share: connections, and attempts until there is an answer or no hope."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, Self, TypeVar

from minikafka.client.backoff import retrying
from minikafka.client.broker_connection import BrokerConnection
from minikafka.client.connections import Connections
from minikafka.client.metadata import Metadata
from minikafka.client.security import PLAIN, Security
from minikafka.errors import ErrorCode, KafkaError
from minikafka.net.tasks import TaskOwner

T = TypeVar("T")

ANSWER_MARGIN_S: Final = 1.0
NO_TOPIC: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
PROPAGATION_S: Final = 1.0  # a broker may hear of a new topic later than the one that created it


class AdminCalls:
    """Connections, and how calls are tried again. Times in milliseconds; ``rng`` is for back-off."""

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        client_id: str = "minikafka-admin",
        security: Security = PLAIN,
        request_timeout_ms: int = 30_000,
        rng: random.Random | None = None,
    ) -> None:
        self._rng = random.Random() if rng is None else rng
        self._timeout_ms = request_timeout_ms
        self._timeout_s = request_timeout_ms / 1000
        self._connections = Connections(
            bootstrap_servers,
            client_id=client_id,
            security=security,
            rng=self._rng,
            request_timeout_s=self._timeout_s,
        )
        self._tasks = TaskOwner(client_id, _report)
        # It looks whether another broker took the place of one that hangs. Only then is the connection closed.
        self._metadata = Metadata(self._connections, self._tasks, self._rng, lambda: None)

    async def start(self) -> None:
        """Connect. Raises KafkaError when no broker answers."""
        try:
            await self._connections.bootstrap()
        except BaseException:
            await self.close()
            raise
        self._metadata.start()

    async def close(self) -> None:
        """Disconnect."""
        try:
            await self._tasks.close()
        finally:
            await self._connections.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # -- for the calls ----------------------------------------------------------------------------------------------

    async def _retrying(
        self,
        attempt: Callable[[], Awaitable[T]],
        doing: str,
        *,
        final: ErrorCode = ErrorCode.NONE,
        believed_after_s: float = 0,
    ) -> T:
        """Repeat while there is hope. ``final`` is an error that is retriable elsewhere but means what it says here,
        if it is still there after ``believed_after_s``."""
        loop = asyncio.get_running_loop()
        first_seen_s: float | None = None

        async def attempt_once() -> T | KafkaError:
            nonlocal first_seen_s
            try:
                return await attempt()
            except KafkaError as error:
                if error.code is not final:
                    raise
                first_seen_s = loop.time() if first_seen_s is None else first_seen_s
                if loop.time() - first_seen_s < believed_after_s:
                    raise
                return error

        found = await retrying(attempt_once, timeout_s=self._timeout_s, rng=self._rng, doing=doing)
        if isinstance(found, KafkaError):
            raise found
        return found

    async def _change(
        self,
        attempt: Callable[[BrokerConnection], Awaitable[None]],
        doing: str,
        *,
        done_before: ErrorCode = ErrorCode.NONE,
        final: ErrorCode = ErrorCode.NONE,
    ) -> None:
        """Have the controller change something.

        ``done_before`` is what it says when the change was made already. After an attempt whose outcome is not known
        that is success: it was most likely ours.
        """
        may_be_done = False

        async def attempt_once() -> None:
            nonlocal may_be_done
            connection = await self._connections.to_controller()
            try:
                await attempt(connection)
            except KafkaError as error:
                if error.code is done_before and may_be_done:
                    return
                may_be_done |= error.code in (ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT)
                if error.code is ErrorCode.NOT_CONTROLLER:
                    await self._connections.refresh([])
                raise

        await self._retrying(attempt_once, doing, final=final)

    @property
    def _answer_s(self) -> float:
        return self._timeout_s + ANSWER_MARGIN_S


def failure(code: int, message: str | None, doing: str) -> KafkaError | None:
    """The error of a result, if it is one."""
    return KafkaError(ErrorCode.of(code), message or f"{doing} failed") if code else None


def check(code: int, message: str | None, doing: str) -> None:
    """Raise the error of a result, if it is one."""
    error = failure(code, message, doing)
    if error is not None:
        raise error


def _report(name: str, error: BaseException) -> None:
    asyncio.get_running_loop().call_exception_handler({"message": f"{name} failed", "exception": error})
