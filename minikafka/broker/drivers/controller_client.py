"""How any node reaches the active controller: directly when it is the one, else by a call to the quorum's leader."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from minikafka.broker.backoff import Backoff
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.controller.commands import Command, Response, decode_response
from minikafka.net.channel import ChannelClosedError
from minikafka.net.control import ControlLink

METHOD: Final = "controller"
BROKER_METHOD: Final = "broker"
"""What brokers ask on their own behalf: heartbeats must not wait behind, or be refused for, what clients ask."""

COMMANDS_AT_ONCE: Final = 64
COMMANDS_MAX: Final = 1_000

R = TypeVar("R", bound=Response)


class LocalController(Protocol):
    """The controller of this node, which may or may not be the active one."""

    async def handle(self, command: Command[Any]) -> Any: ...


class ControllerClient:
    """Sends commands to whichever node is the active controller now, and tries again while that is changing.

    Of the commands of clients some are under way, a bounded number waits, and more are refused.
    """

    def __init__(
        self,
        node_id: int,
        local: LocalController,
        links: dict[int, ControlLink],
        leader_id: Callable[[], int | None],
        rng: random.Random,
    ) -> None:
        self._node_id = node_id
        self._local = local
        self._links = links
        self._leader_id = leader_id
        self._rng = rng
        self._commands = 0
        self._turns = asyncio.Semaphore(COMMANDS_AT_ONCE)

    async def call(self, command: Command[R], *, timeout_s: float) -> R:
        """The controller's response once its records are committed.

        Raises the controller's own KafkaError, or KafkaError(NOT_CONTROLLER) when none was reached in time. A
        command may then have been carried out all the same: its records may be committed after the answer is lost.
        KafkaError(THROTTLING_QUOTA_EXCEEDED), which is retriable, when too many commands of clients wait already.
        """
        if command.IS_BROKERS_OWN:
            return await self._call(command, asyncio.get_running_loop().time(), timeout_s)
        if self._commands >= COMMANDS_MAX:
            message = f"{self._commands} commands wait for the controller already; try again later"
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, message)
        self._commands += 1
        try:
            return await self._call_in_turn(command, timeout_s)
        finally:
            self._commands -= 1

    async def _call_in_turn(self, command: Command[R], timeout_s: float) -> R:
        began_s = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(timeout_s):
                await self._turns.acquire()
        except TimeoutError:
            message = f"other commands kept the controller busy for {timeout_s:g} s; try again later"
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, message) from None
        try:
            return await self._call(command, began_s, timeout_s)
        finally:
            self._turns.release()

    async def _call(self, command: Command[R], began_s: float, timeout_s: float) -> R:
        backoff = Backoff(self._rng, first_ms=10, last_ms=250)
        last = "no controller is elected"
        try:
            async with asyncio.timeout_at(began_s + timeout_s):
                while True:
                    try:
                        return await self.call_once(command)
                    except (OSError, TimeoutError, ChannelClosedError) as error:
                        last = str(error) or type(error).__name__
                    except KafkaError as error:
                        if error.code is not ErrorCode.NOT_CONTROLLER:
                            raise
                        last = error.message
                    await asyncio.sleep(backoff.next_s())
        except TimeoutError:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"no active controller within {timeout_s:g} s: {last}") from None

    async def call_once(self, command: Command[R]) -> R:
        """One attempt, without retry."""
        leader_id = self._leader_id()
        if leader_id is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "no controller is elected")
        if leader_id == self._node_id:
            answer: R = await self._local.handle(command)
            return answer
        method = BROKER_METHOD if command.IS_BROKERS_OWN else METHOD
        return decode_response(command, await self._links[leader_id].call(method, command.to_wire()))
