"""Incremental fetch sessions, server side: a bounded cache of the partitions of each fetcher (KIP-227).

A request with session epoch 0 is full and opens a session if a slot is free. Epoch -1 is full and wants no session.
Any other epoch is incremental and must be exactly the expected one. A full request that names a session closes it.

Slots are few. A session is worth more the more partitions it has. When all slots are taken, the new session gets the
slot of

1. the least recently used session, if that was not used for ``eviction_ms``; else
2. the smallest evictable session, if that is worth less than the new one. Followers' sessions are worth more than
   consumers'. A follower may evict a consumer's session at any time. Other sessions can be evicted only when they are
   older than ``eviction_ms``, so that many similar fetchers do not evict each other in turn.

Without a slot the answer's session id is 0, and the fetcher goes on with full requests.

Clients may name any partitions, also such as do not exist, and each request of a session looks at all that were named
before. So a client's session has at most SESSION_PARTITIONS_MAX, and those of all clients together a bound, beyond
which a new session takes another's slot as above.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias
from uuid import UUID

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_OFFSET, ZERO_TOPIC_ID, TopicPartition
from minikafka.replication.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, MAX_EPOCH, NO_SESSION_ID, next_epoch
from minikafka.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

FIRST_TOPIC_ID_VERSION: Final = 13
SESSION_PARTITIONS_MAX: Final = 10_000
"""Of a client: as many as one request may name. A session of 110,000 held the loop for half a second at each fetch."""
CLIENT_PARTITIONS_MAX: Final = 100_000
"""Of all clients together: some 35 MB."""
NAME_LENGTH_MAX: Final = 249
"""Of a topic."""

PartitionKey: TypeAlias = tuple[UUID | str, int]  # the topic as the request's version names it, and the partition
TopicNames: TypeAlias = Callable[[UUID], str | None]


class Rng(Protocol):
    """Source of random session ids."""

    def randrange(self, start: int, stop: int, /) -> int: ...


class CachedPartition:
    """A partition of a session: the fetcher's entry, and the last answer to it.

    ``tp`` is None while no topic has the id (answer UNKNOWN_TOPIC_ID). A topic may be deleted and created again while
    a session names the old one: compare ``topic_id`` (zero when asked by name) with the partition's.
    """

    __slots__ = (
        "_high_watermark",
        "_last_stable_offset",
        "_log_start_offset",
        "asked",
        "partition",
        "topic",
        "topic_id",
        "tp",
    )

    def __init__(self, topic: str, topic_id: UUID, asked: FetchPartition) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = asked.partition
        self.asked = asked
        self.tp: TopicPartition | None = None
        self._high_watermark = NO_OFFSET
        self._last_stable_offset = NO_OFFSET
        self._log_start_offset = NO_OFFSET

    @property
    def key(self) -> PartitionKey:
        """Key in the session."""
        return (self.topic if self.topic_id is ZERO_TOPIC_ID else self.topic_id, self.partition)

    def resolve(self, topic_name: TopicNames) -> None:
        """Find the topic's name, once."""
        name = self.topic if self.topic_id is ZERO_TOPIC_ID else topic_name(self.topic_id)
        if name is not None:
            self.tp = TopicPartition(name, self.partition)

    def is_news(self, data: PartitionData) -> bool:
        """``data`` has something that the fetcher was not told yet."""
        return (
            bool(data.records)
            or data.high_watermark != self._high_watermark
            or data.last_stable_offset != self._last_stable_offset
            or data.log_start_offset != self._log_start_offset
            or data.error_code != ErrorCode.NONE
            or data.diverging_epoch is not None
            or data.preferred_read_replica >= 0
        )

    def remember(self, data: PartitionData) -> None:
        """``data`` goes to the fetcher. After an error or a divergence the next good answer is always news."""
        is_settled = data.error_code == ErrorCode.NONE and data.diverging_epoch is None
        self._high_watermark = data.high_watermark if is_settled else NO_OFFSET
        self._last_stable_offset = data.last_stable_offset
        self._log_start_offset = data.log_start_offset


@dataclass(slots=True, kw_only=True, eq=False)
class _Session:
    session_id: int
    partitions: dict[PartitionKey, CachedPartition]
    is_follower: bool
    uses_topic_ids: bool
    created_ms: int
    last_used_ms: int
    epoch: int = next_epoch(INITIAL_EPOCH)

    @property
    def worth(self) -> tuple[bool, int]:
        return self.is_follower, len(self.partitions)

    def update(self, request: FetchRequest) -> None:
        for forgotten in request.forgotten_topics_data:
            topic = forgotten.topic_id if self.uses_topic_ids else forgotten.topic
            for partition in forgotten.partitions:
                self.partitions.pop((topic, partition), None)
        for named in _named(request, uses_topic_ids=self.uses_topic_ids):
            known = self.partitions.setdefault(named.key, named)
            known.asked = named.asked


FetchResult: TypeAlias = tuple[CachedPartition, PartitionData]


class FetchContext:
    """One fetch request: its partitions in the order of reading, and the way to answer it.

    ``session_id`` of the answer: 0 without a session.
    """

    __slots__ = ("_epoch", "_is_incremental", "_session", "partitions")

    def __init__(
        self, partitions: Iterable[CachedPartition], session: _Session | None = None, *, is_incremental: bool = False
    ) -> None:
        self.partitions = tuple(partitions)
        self._session = session
        self._epoch = NO_SESSION_ID if session is None else session.epoch
        self._is_incremental = is_incremental

    @property
    def session_id(self) -> int:
        """Session id of the answer."""
        return NO_SESSION_ID if self._session is None else self._session.session_id

    def response(self, results: Sequence[FetchResult]) -> FetchResponse:
        """The answer. A session answers with news only, and moves the served partitions to the end of its order."""
        session = self._session
        if session is None:
            return FetchResponse(responses=_grouped(results))
        if session.epoch != self._epoch:
            return FetchResponse(
                error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=session.session_id
            )  # a later request of the session overtook this one while it waited
        told = [(cached, data) for cached, data in results if not self._is_incremental or cached.is_news(data)]
        for cached, data in told:
            cached.remember(data)
            key = cached.key
            if data.records and session.partitions.get(key) is cached:
                session.partitions[key] = session.partitions.pop(key)
        return FetchResponse(session_id=session.session_id, responses=_grouped(told))


class FetchSessionCache:
    """All sessions of one broker. ``topic_name`` finds the topic of an id; ``rng`` draws session ids."""

    __slots__ = ("_eviction_ms", "_max_partitions", "_max_slots", "_of_clients", "_rng", "_sessions", "_topic_name")

    def __init__(
        self,
        rng: Rng,
        topic_name: TopicNames,
        *,
        max_slots: int = 1000,
        eviction_ms: int = 120_000,
        max_partitions: int = CLIENT_PARTITIONS_MAX,
    ) -> None:
        """``max_partitions``: in all sessions of clients."""
        self._max_partitions = max_partitions
        self._of_clients = 0  # partitions
        self._rng = rng
        self._topic_name = topic_name
        self._max_slots = max_slots
        self._eviction_ms = eviction_ms
        self._sessions: dict[int, _Session] = {}  # least recently used first

    def open(self, request: FetchRequest, version: int, *, is_follower: bool, now_ms: int) -> FetchContext:
        """The context for ``request``.

        Raises KafkaError with the answer's top-level error: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or
        FETCH_SESSION_TOPIC_ID_ERROR.
        """
        uses_topic_ids = version >= FIRST_TOPIC_ID_VERSION
        if request.session_epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
            return self._continue(request, uses_topic_ids=uses_topic_ids, is_follower=is_follower, now_ms=now_ms)
        self._close(request.session_id, is_follower=is_follower)
        partitions = {named.key: named for named in _named(request, uses_topic_ids=uses_topic_ids)}
        self._resolve(partitions.values())
        session = None
        if request.session_epoch == INITIAL_EPOCH and partitions and not _has_long_names(request):
            session = self._create(partitions, is_follower=is_follower, uses_topic_ids=uses_topic_ids, now_ms=now_ms)
        return FetchContext(partitions.values(), session)

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, session_id: int) -> bool:
        return session_id in self._sessions

    # -- inside -----------------------------------------------------------------------------------------------------

    def _continue(self, request: FetchRequest, *, uses_topic_ids: bool, is_follower: bool, now_ms: int) -> FetchContext:
        session = self._sessions.get(request.session_id)
        if session is None or session.is_follower != is_follower:  # a follower's session is not a consumer's
            raise KafkaError(
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"fetch session {request.session_id} not found; open a new one"
            )
        if session.epoch != request.session_epoch:
            raise KafkaError(
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                f"fetch session {request.session_id} expects epoch {session.epoch}, not {request.session_epoch}",
            )
        if session.uses_topic_ids != uses_topic_ids:
            opened_with = "ids" if session.uses_topic_ids else "names"
            raise KafkaError(
                ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
                f"fetch session {request.session_id} was opened with topic {opened_with}, and can only go on with them",
            )
        self._update(session, request)
        if not session.partitions:
            self._drop(session)
            return FetchContext(())
        self._resolve(session.partitions.values())
        session.epoch = next_epoch(session.epoch)
        self._touch(session, now_ms)
        return FetchContext(session.partitions.values(), session, is_incremental=True)

    def _update(self, session: _Session, request: FetchRequest) -> None:
        before = len(session.partitions)
        session.update(request)
        if session.is_follower:
            return
        self._of_clients += len(session.partitions) - before
        is_too_large = len(session.partitions) > SESSION_PARTITIONS_MAX or self._of_clients > self._max_partitions
        if is_too_large or _has_long_names(request):
            self._drop(session)
            raise KafkaError(
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
                f"fetch session {session.session_id} of {len(session.partitions)} partitions is too large, and closed",
            )

    def _drop(self, session: _Session) -> None:
        del self._sessions[session.session_id]
        if not session.is_follower:
            self._of_clients -= len(session.partitions)

    def _resolve(self, partitions: Iterable[CachedPartition]) -> None:
        for cached in partitions:
            if cached.tp is None:
                cached.resolve(self._topic_name)

    def _touch(self, session: _Session, now_ms: int) -> None:
        session.last_used_ms = now_ms
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)

    def _close(self, session_id: int, *, is_follower: bool) -> None:
        session = self._sessions.get(session_id)
        if session is not None and session.is_follower == is_follower:
            self._drop(session)

    def _create(
        self,
        partitions: dict[PartitionKey, CachedPartition],
        *,
        is_follower: bool,
        uses_topic_ids: bool,
        now_ms: int,
    ) -> _Session | None:
        session = _Session(
            session_id=self._new_id(),
            partitions=partitions,
            is_follower=is_follower,
            uses_topic_ids=uses_topic_ids,
            created_ms=now_ms,
            last_used_ms=now_ms,
        )
        while not self._has_room_for(session):
            if not self._maybe_evict(session, now_ms):
                return None
        self._sessions[session.session_id] = session
        if not is_follower:
            self._of_clients += len(partitions)
        return session

    def _has_room_for(self, newcomer: _Session) -> bool:
        if len(self._sessions) >= self._max_slots:
            return False
        return newcomer.is_follower or self._of_clients + len(newcomer.partitions) <= self._max_partitions

    def _new_id(self) -> int:
        while True:
            session_id = self._rng.randrange(NO_SESSION_ID + 1, MAX_EPOCH)
            if session_id not in self._sessions:
                return session_id

    def _maybe_evict(self, newcomer: _Session, now_ms: int) -> bool:
        if not self._sessions:
            return False
        victim = next(iter(self._sessions.values()))
        if now_ms - victim.last_used_ms <= self._eviction_ms:
            evictable = [session for session in self._sessions.values() if self._may_evict(newcomer, session, now_ms)]
            if not evictable:
                return False
            victim = min(evictable, key=lambda session: session.worth)
        self._drop(victim)
        return True

    def _may_evict(self, newcomer: _Session, session: _Session, now_ms: int) -> bool:
        is_old = now_ms - session.created_ms > self._eviction_ms
        is_free_prey = newcomer.is_follower and not session.is_follower
        return (is_old or is_free_prey) and session.worth < newcomer.worth


def _has_long_names(request: FetchRequest) -> bool:
    """Whether a topic is named that cannot exist, in up to 32 KiB. Sessions do not keep such names."""
    return any(len(topic.topic) > NAME_LENGTH_MAX for topic in request.topics)


def _named(request: FetchRequest, *, uses_topic_ids: bool) -> Iterable[CachedPartition]:
    for topic in request.topics:
        name, topic_id = ("", topic.topic_id) if uses_topic_ids else (topic.topic, ZERO_TOPIC_ID)
        for partition in topic.partitions:
            yield CachedPartition(name, topic_id, partition)


def _grouped(results: Iterable[FetchResult]) -> list[FetchableTopicResponse]:
    """Neighbours of one topic share an entry; more grouping would change the order."""
    topics: list[FetchableTopicResponse] = []
    last: FetchableTopicResponse | None = None
    for cached, data in results:
        if last is None or last.topic_id != cached.topic_id or last.topic != cached.topic:
            last = FetchableTopicResponse(topic=cached.topic, topic_id=cached.topic_id)
            topics.append(last)
        last.partitions.append(data)
    return topics
