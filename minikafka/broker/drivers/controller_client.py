"""Calls of any node to the active controller: directly on the same node, otherwise through the quorum's leader."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from minikafka.broker.backoff import Backoff
from minikafka.errors import ErrorCode, KafkaError
from minikafka.net.channel import ChannelClosedError
from minikafka.net.control import ControlLink
from minikafka.wire.api import BROKERS
from minikafka.wire.forwarded import decode_answer, encode_forwarded, key_of
from minikafka.wire.schema import Message

CLIENT_METHOD: Final = "controller"
BROKER_METHOD: Final = "broker"
"""A broker's own requests: heartbeats must neither wait behind clients' requests nor be refused because of them."""

REQUESTS_AT_ONCE: Final = 64
REQUESTS_MAX: Final = 1_000

M = TypeVar("M", bound=Message)


class LocalController(Protocol):
    """The controller of this node, which may or may not be the active one."""

    async def handle(self, request: Message) -> Any: ...


@dataclass(eq=False)
class ControllerClient:
    """Sends requests to the active controller, and retries while the controller changes.

    Some client requests are under way, a bounded number waits, and more are refused.
    """

    _node_id: int
    _local: LocalController
    _links: dict[int, ControlLink]
    _leader_id: Callable[[], int | None]
    _rng: random.Random
    _requests: int = field(default=0, init=False)
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(REQUESTS_AT_ONCE), init=False)

    async def call(self, request: Message, response_class: type[M], *, timeout_s: float) -> M:
        """The controller's response once its records are committed.

        Raises the controller's own KafkaError, or KafkaError(NOT_CONTROLLER) when no controller answered in time; its
        records may be committed all the same. Raises KafkaError(THROTTLING_QUOTA_EXCEEDED), which is retriable, when
        too many client requests wait already.
        """
        if _is_brokers_own(request):
            return await self._call(request, response_class, asyncio.get_running_loop().time(), timeout_s)
        if self._requests >= REQUESTS_MAX:
            message = f"{self._requests} requests wait for the controller already; try again later"
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, message)
        self._requests += 1
        try:
            return await self._call_in_turn(request, response_class, timeout_s)
        finally:
            self._requests -= 1

    async def _call_in_turn(self, request: Message, response_class: type[M], timeout_s: float) -> M:
        began_s = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(timeout_s):
                await self._turns.acquire()
        except TimeoutError:
            message = f"other requests kept the controller busy for {timeout_s:g} s; try again later"
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, message) from None
        try:
            return await self._call(request, response_class, began_s, timeout_s)
        finally:
            self._turns.release()

    async def _call(self, request: Message, response_class: type[M], began_s: float, timeout_s: float) -> M:
        backoff = Backoff(self._rng, first_ms=10, last_ms=250)
        last = "no controller is elected"
        try:
            async with asyncio.timeout_at(began_s + timeout_s):
                while True:
                    try:
                        return await self.call_once(request, response_class)
                    except (OSError, TimeoutError, ChannelClosedError) as error:
                        last = str(error) or type(error).__name__
                    except KafkaError as error:
                        if error.code is not ErrorCode.NOT_CONTROLLER:
                            raise
                        last = error.message
                    await asyncio.sleep(backoff.next_s())
        except TimeoutError:
            why = f"{last}; {self.contact}".removesuffix("; ")
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"no active controller within {timeout_s:g} s: {why}") from None

    @property
    def contact(self) -> str:
        """Which voters this node has lost, in words; empty when none."""
        return without_contact(self._links)

    async def call_once(self, request: Message, response_class: type[M]) -> M:
        """One attempt, without retry."""
        leader_id = self._leader_id()
        if leader_id is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "no controller is elected")
        if leader_id == self._node_id:
            response = await self._local.handle(request)
            assert isinstance(response, response_class)
            return response
        method = BROKER_METHOD if _is_brokers_own(request) else CLIENT_METHOD
        answer = await self._links[leader_id].call(method, encode_forwarded(request))
        return decode_answer(request, response_class, answer)


def without_contact(links: Mapping[int, ControlLink]) -> str:
    """Which voters cannot be reached now, in words; empty when none was lost."""
    lost = [str(peer_id) for peer_id, link in sorted(links.items()) if link.is_lost]
    if not lost:
        return ""
    return f"no contact to node{'s' if len(lost) > 1 else ''} {', '.join(lost)}"


def _is_brokers_own(request: Message) -> bool:
    return key_of(request).listeners == BROKERS
