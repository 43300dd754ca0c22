"""Look-ups for positions: a committed offset, the first or last offset, the end of an epoch.

There is a task per look-up and broker, so a broker that does not answer delays its own partitions only. A failed
look-up is repeated after a back-off, while the position needs it.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from minikafka.client.backoff import RETRY_BACKOFF, retrying
from minikafka.client.connections import Connections
from minikafka.client.consuming.coordinator import Coordinator
from minikafka.client.consuming.positions import Position, PositionState
from minikafka.client.consuming.queries import (
    ANSWER_TIMEOUT_S,
    NO_ANSWER,
    ask_leaders,
    epoch_ends,
    list_offsets,
)
from minikafka.client.errors import NoOffsetError
from minikafka.client.metadata import Metadata
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_NODE, NO_OFFSET, Isolation, OffsetAndEpoch, TopicPartition
from minikafka.net.tasks import TaskOwner
from minikafka.wire.offset_questions import Answer, EpochQuestion, TimeQuestion

Tickets = dict[TopicPartition, tuple[Position, int]]


@dataclass(eq=False)
class Resolver:
    """``coordinator`` is None for a consumer without a group, whose positions start by their policy.

    ``on_answer`` is called when positions may have changed.
    """

    _connections: Connections
    _metadata: Metadata
    _coordinator: Coordinator | None
    _tasks: TaskOwner
    _rng: random.Random
    _clock_ms: Callable[[], int]
    _isolation: Isolation
    _on_answer: Callable[[], None]

    def ask(self, positions: Iterable[Position], now_ms: int) -> None:
        """Start every look-up that is due at ``now_ms``."""
        by_state: dict[PositionState, list[Position]] = defaultdict(list)
        for position in positions:
            if position.is_due(now_ms):
                by_state[position.state].append(position)
        self._ask_committed(by_state[PositionState.UNKNOWN])
        for leader, led in self._by_leader(by_state[PositionState.RESETTING]):
            tickets = _tickets(led)
            self._start(partial(self._reset, leader, tickets), tickets, f"reset-at-{leader}")
        for leader, led in self._by_leader(by_state[PositionState.VALIDATING]):
            tickets = _tickets(led)
            self._start(partial(self._validate, leader, tickets), tickets, f"validate-at-{leader}")

    def back_off(self, position: Position, error: KafkaError) -> None:
        """Repeat the look-up later; refresh metadata meanwhile, or raise ``error`` to the user."""
        if error.retriable:
            self._metadata.request_refresh()
        delay_ms = int(RETRY_BACKOFF.delay_s(position.failures + 1, self._rng) * 1000)
        position.back_off(self._clock_ms() + delay_ms, None if error.retriable else error)

    async def find_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, timeout_s: float
    ) -> dict[TopicPartition, int]:
        """The offset for each timestamp (ms; -1 latest, -2 earliest); -1 without a record of that time or later.

        Raises KafkaError when the leader of some partition did not answer within ``timeout_s``.
        """
        questions = {tp: TimeQuestion(timestamp) for tp, timestamp in timestamps.items()}
        ask = partial(list_offsets, isolation=self._isolation, timeout_s=ANSWER_TIMEOUT_S)
        found: dict[TopicPartition, OffsetAndEpoch] = {}

        async def attempt() -> None:
            await ask_leaders(self._connections, questions, ask, found, "looking up an offset")

        await retrying(attempt, timeout_s=timeout_s, rng=self._rng, doing="looking up offsets")
        return {tp: max(offset, NO_OFFSET) for tp, (offset, _) in found.items()}

    # -- questions about positions ----------------------------------------------------------------------------------

    def _ask_committed(self, positions: list[Position]) -> None:
        if not positions:
            return
        if self._coordinator is None:
            for position in positions:
                position.reset_by_policy(NoOffsetError(position.tp))
            self._on_answer()
            return
        tickets = _tickets(positions)
        self._start(partial(self._find_committed, self._coordinator, tickets), tickets, "committed")

    async def _find_committed(self, coordinator: Coordinator, tickets: Tickets) -> None:
        stable = self._isolation is Isolation.READ_COMMITTED
        stored = await coordinator.committed(list(tickets), require_stable=stable)
        for tp, (position, ticket) in tickets.items():
            if position.answered(ticket):
                if (offset := stored.get(tp)) is not None:
                    position.seek(*offset, validated=False)
                else:
                    position.reset_by_policy(NoOffsetError(tp))

    async def _reset(self, leader: int, tickets: Tickets) -> None:
        questions = {
            tp: TimeQuestion(position.reset_to, position.leader_epoch) for tp, (position, _) in tickets.items()
        }
        connection = await self._connections.to_node(leader)
        answers = await list_offsets(connection, questions, self._isolation, timeout_s=ANSWER_TIMEOUT_S)
        for position, found in self._good(tickets, answers, "looking up the offset to start from"):
            position.seek(*found)

    async def _validate(self, leader: int, tickets: Tickets) -> None:
        questions = {
            tp: EpochQuestion(position.fetched.epoch, position.leader_epoch) for tp, (position, _) in tickets.items()
        }
        connection = await self._connections.to_node(leader)
        answers = await epoch_ends(connection, questions, timeout_s=ANSWER_TIMEOUT_S)
        for position, end in self._good(tickets, answers, "asking where an epoch ended"):
            position.on_epoch_end(end)

    def _good(
        self, tickets: Tickets, answers: Mapping[TopicPartition, Answer], doing: str
    ) -> Iterable[tuple[Position, OffsetAndEpoch]]:
        """The usable answers; positions without one back off."""
        for tp, (position, ticket) in tickets.items():
            if position.answered(ticket):
                error, found = answers.get(tp, NO_ANSWER)
                if error is ErrorCode.NONE:
                    yield position, found
                else:
                    self.back_off(position, KafkaError(error, f"{tp}: {doing} failed"))

    def _start(self, question: Callable[[], Awaitable[None]], tickets: Tickets, name: str) -> None:
        self._tasks.start(self._guard(question, tickets), name)

    async def _guard(self, question: Callable[[], Awaitable[None]], tickets: Tickets) -> None:
        try:
            await question()
        except KafkaError as error:
            for position, ticket in tickets.values():
                if position.answered(ticket):
                    self.back_off(position, error)
        self._on_answer()

    def _by_leader(self, positions: Iterable[Position]) -> Iterable[tuple[int, list[Position]]]:
        """Groups by leader; a position without one waits until metadata names it."""
        by_leader: dict[int, list[Position]] = defaultdict(list)
        for position in positions:
            by_leader[self._connections.cluster.leader_of(position.tp)].append(position)
        if by_leader.pop(NO_NODE, None):
            self._metadata.request_refresh()
        return by_leader.items()


def _tickets(positions: Iterable[Position]) -> Tickets:
    return {position.tp: (position, position.ask()) for position in positions}
