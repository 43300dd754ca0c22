"""How any node reaches the active controller: directly when it is the one, else by a call to the quorum's leader."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from minikafka.broker.backoff import Backoff
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.controller.commands import Command, Response, decode_response
from minikafka.net.channel import ChannelClosedError
from minikafka.net.control import ControlLink

METHOD = "controller"

R = TypeVar("R", bound=Response)


class LocalController(Protocol):
    """The controller of this node, which may or may not be the active one."""

    async def handle(self, command: Command[Any]) -> Any: ...


class ControllerClient:
    """Sends commands to whichever node is the active controller now, and tries again while that is changing."""

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

    async def call(self, command: Command[R], *, timeout_s: float) -> R:
        """The controller's response once its records are committed.

        Raises the controller's own KafkaError, or KafkaError(NOT_CONTROLLER) when none was reached in time. A
        command may then have been carried out all the same: its records may be committed after the answer is lost.
        """
        backoff = Backoff(self._rng, first_ms=10, last_ms=250)
        last = "no controller is elected"
        try:
            async with asyncio.timeout(timeout_s):
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
        return decode_response(command, await self._links[leader_id].call(METHOD, command.to_wire()))
