"""A driver of the transaction coordinator for tests: a log, timers, markers to write, and what was answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from minikafka.coordination.effects import CancelTimer, Respond, SetTimer, Token, Write
from minikafka.coordination.phase import Phase
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import ProducerIdentity, TopicPartition
from minikafka.transactions.coordinator import TransactionCoordinator
from minikafka.transactions.effects import AskAgain, Effect, Outcome, Refused, SendMarkers, TimerKey, WriteLarge
from minikafka.transactions.ending import ENDING
from minikafka.transactions.limits import Memory
from minikafka.transactions.records import encode_transaction
from minikafka.transactions.settings import TransactionSettings
from minikafka.transactions.transaction import Transaction
from minikafka.wire.versioned import Record

WALL_START_MS = 1_700_000_000_000
FIRST_PRODUCER_ID = 1_000


class Driver:
    """Does what the coordinator asks. Writes wait for :meth:`committed` or :meth:`failed` unless `auto_commit`."""

    def __init__(self, *, auto_commit: bool = True, version: int = 2, **settings: int) -> None:
        self.settings = TransactionSettings(**settings)
        self.auto_commit = auto_commit
        self.version = version
        self.now_ms = 0
        self.wall_ms = WALL_START_MS
        self.jumped_ms = 0  # ahead of what a node believes
        self.log: list[Record] = []
        self.appended: list[Write] = []  # in the log, not committed yet
        self.timers: dict[TimerKey, int] = {}
        self.answers: dict[Token, Any] = {}
        self.waiting: set[Token] = set()
        self.marking: list[SendMarkers] = []  # of this coordinator
        self.tokens = count(1)
        self.producer_ids = count(FIRST_PRODUCER_ID)
        self.ids_at_hand = True
        self.on_answer: Callable[[Token, Outcome], None] = lambda _token, _outcome: None
        self.epoch = 0
        self.has_run = False
        self.memory = Memory(1 << 30)
        self.largest_batch = 4 << 20
        self.unknown: set[TopicPartition] = set()  # partitions that the coordinator's node has not heard of
        self.refused: list[Refused] = []
        self.may_ask_again: list[str] = []
        self.start()

    def take_producer_id(self) -> int:
        """The next, unless there is none at hand."""
        if not self.ids_at_hand:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no producer id is at hand")
        return next(self.producer_ids)

    def start(self) -> None:
        """A new coordinator on what the log holds."""
        self.timers.clear()
        self.marking.clear()
        self.epoch += 1
        self.coordinator = TransactionCoordinator(
            self.settings,
            lambda: self.wall_ms,
            self.take_producer_id,
            lambda: self.version,
            self.memory,
            lambda: self.largest_batch,
            lambda tp: tp not in self.unknown,
            lambda: self.wall_ms - self.jumped_ms,
        )
        for key, value in self.log:
            assert self.coordinator.replay(key, value, self.now_ms)
        while self.coordinator.phase is Phase.LOADING:
            self.run(self.coordinator.finish_loading(self.now_ms))

    def failover(self, survive: int | None = None) -> None:
        """The coordinator resigns; a new one starts with the first `survive` uncommitted writes (None: all)."""
        self.run(self.coordinator.resign(self.now_ms))
        assert not self.waiting, "a request was left without an answer"
        assert not self.memory.held_bytes
        for write in self.appended[:survive]:
            self.log += write.records
        self.appended.clear()
        self.start()

    def run(self, effects: Iterable[Effect]) -> None:
        """Do `effects`, and with `auto_commit` those that follow from their writes."""
        self.has_run = True
        for effect in effects:
            self.do(effect)
        self.check()
        while self.auto_commit and self.appended:
            self.committed()

    def do(self, effect: Effect) -> None:
        """Do one effect."""
        match effect:
            case Respond(token, response):
                assert token in self.waiting, f"{token} is answered twice"
                self.waiting.discard(token)
                self.answers[token] = response
                self.on_answer(token, response)
            case SetTimer(key, deadline_ms):
                assert deadline_ms >= self.now_ms
                self.timers[key] = deadline_ms  # type: ignore[index]
            case CancelTimer(key):
                self.timers.pop(key, None)  # type: ignore[arg-type]
            case Write():
                self.appended.append(effect)
            case WriteLarge(write_id, transaction):
                self.appended.append(Write(write_id, (encode_transaction(transaction),)))
            case Refused():
                self.refused.append(effect)
            case AskAgain(transactional_id):
                self.may_ask_again.append(transactional_id)
            case SendMarkers():
                assert effect.partitions
                self.marking.append(effect)

    def check(self) -> None:
        """What must hold of every id between two steps."""
        if self.coordinator.phase is not Phase.ACTIVE:
            return
        entries = self.coordinator.shard.entries
        for each in self.marking:
            now = entries[each.transactional_id].transaction
            assert now.producer_epoch == each.producer_epoch, f"{each.transactional_id} ends before its markers"
            assert each.partitions <= now.partitions, f"{each.transactional_id} counts markers that are not written"
        for transactional_id, entry in entries.items():
            now = entry.transaction
            assert not (now.partitions and now.is_at_rest)
            is_at_work = entry.pending is not None or now.state in ENDING
            assert is_at_work or not entry.has_waiting, f"{transactional_id}: nobody is told to ask again"
            if entry.pending is None and now.state in ENDING and entry.timer_ms is None:
                of = (transactional_id, now.producer_epoch)
                is_marking = any((each.transactional_id, each.producer_epoch) == of for each in self.marking)
                assert is_marking, f"{transactional_id} never ends"

    def committed(self) -> None:
        """The oldest write is committed."""
        write = self.appended.pop(0)
        self.log += write.records
        self.run(self.coordinator.on_committed(write.write_id, self.now_ms))

    def failed(self, error: ErrorCode, which: int = 0) -> None:
        """A write (the oldest) was not appended."""
        write = self.appended.pop(which)
        self.run(self.coordinator.on_write_failed(write.write_id, error, self.now_ms))

    def marked(self, *partitions: TopicPartition, which: int = 0) -> None:
        """Some partitions (all) of the markers under way have theirs."""
        markers = self.marking[which]
        done = frozenset(partitions) or markers.partitions
        left = markers.partitions - done
        self.marking[which : which + 1] = [markers._replace(partitions=left)] if left else []
        producer = ProducerIdentity(markers.producer_id, markers.producer_epoch)
        self.run(self.coordinator.on_marked(markers.transactional_id, producer, done, self.now_ms))

    def advance(self, ms: int) -> None:
        """Let time pass, firing timers in their order."""
        end = self.now_ms + ms
        while self.timers and min(self.timers.values()) <= end:
            key = min(self.timers, key=lambda key: self.timers[key])
            deadline = self.timers.pop(key)
            self.wall_ms += deadline - self.now_ms
            self.now_ms = deadline
            self.run(self.coordinator.on_timer(key, self.now_ms))
        self.wall_ms += end - self.now_ms
        self.now_ms = end

    def ask(self, act: Callable[[Token], Iterable[Effect]], token: Token | None = None) -> Any:
        """Run a request; its outcome, or its token while it waits."""
        token = token if token is not None else f"request-{next(self.tokens)}"
        self.waiting.add(token)
        self.run(act(token))
        return self.answers.get(token, token)

    # -- requests ---------------------------------------------------------------------------------------------------

    def init(
        self,
        name: str = "copier",
        expected: ProducerIdentity | None = None,
        timeout_ms: int = 60_000,
        token: Token | None = None,
    ) -> Any:
        """InitProducerId."""
        return self.ask(
            lambda token: self.coordinator.init_producer_id(name, timeout_ms, expected, token, self.now_ms), token
        )

    def add(
        self,
        producer: ProducerIdentity,
        *partitions: TopicPartition,
        name: str = "copier",
        version: int = 1,
        token: Token | None = None,
    ) -> Any:
        """AddPartitionsToTxn."""
        return self.ask(
            lambda token: self.coordinator.add_partitions(name, producer, partitions, version, token, self.now_ms),
            token,
        )

    def end(
        self,
        producer: ProducerIdentity,
        *,
        commits: bool,
        name: str = "copier",
        version: int = 1,
        token: Token | None = None,
    ) -> Any:
        """EndTxn."""
        return self.ask(
            lambda token: self.coordinator.end_transaction(
                name, producer, version, token, self.now_ms, commits=commits
            ),
            token,
        )

    def described(self, name: str = "copier") -> Transaction:
        """The committed state of an id."""
        return self.coordinator.describe(name)
