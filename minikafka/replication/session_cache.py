"""Incremental fetch sessions, server side: a bounded cache of the partitions of each fetcher (KIP-227).

A request with session epoch 0 is full and opens a session if a slot is free. Epoch -1 is full and wants no session.
Any other epoch is incremental and must be exactly the expected one. A full request that names a session closes it.

Slots are few. A session is worth more the more partitions it has. When all slots are taken, the new session gets the
slot of

1. the least recently used session, if that was not used for ``eviction_ms``; else
2. the smallest evictable session, if that is worth less than the new one. Followers' sessions are worth more than
   consumers'. A follower may evict a consumer's session at any time. Other sessions can be evicted only when they are
   older than ``eviction_ms``, so that many similar fetchers do not evict each other in turn.

Without a slot the answer's session id is 0, and the fetcher goes on with full requests. When a follower opens a
session, its sessions of earlier registrations end, and those that it has not used for ``eviction_ms``: a fetcher that
has nothing left to fetch stops without a word.

Clients may name any partitions, also such as do not exist, and each request of a session looks at all that were named
before. So a client's session has at most SESSION_PARTITIONS_MAX, and those of all clients together a bound, beyond
which a new session takes another's slot as above.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol, TypeAlias

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import ANONYMOUS, NO_NODE, TOPIC_NAME_LENGTH_MAX
from minikafka.replication.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, MAX_EPOCH, NO_SESSION_ID, next_epoch
from minikafka.replication.progress import ReplicaProgress
from minikafka.replication.server_session import (
    CachedPartition,
    FetchSession,
    Follower,
    PartitionKey,
    SessionsByPartition,
    TopicNames,
    named,
)
from minikafka.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

FIRST_TOPIC_ID_VERSION: Final = 13
SESSION_PARTITIONS_MAX: Final = 10_000
"""Of a client: as many as one request may name. A session of 110,000 held the loop for half a second at each fetch."""
CLIENT_PARTITIONS_MAX: Final = 100_000
"""Of all clients together: some 35 MB."""


class Rng(Protocol):
    """Source of random session ids."""

    def randrange(self, start: int, stop: int, /) -> int: ...


FetchResult: TypeAlias = tuple[CachedPartition, PartitionData]
ProgressOf: TypeAlias = Callable[[CachedPartition], ReplicaProgress | None]


class FetchContext:
    """One fetch request: its partitions in the order of reading, and the way to answer it.

    ``partitions``: what it has to look at. ``is_empty``: it is about no partition at all. ``session``: None without.
    """

    __slots__ = ("_epoch", "_is_incremental", "is_empty", "partitions", "session")

    def __init__(
        self,
        partitions: Iterable[CachedPartition],
        session: FetchSession | None = None,
        *,
        is_incremental: bool = False,
    ) -> None:
        self.partitions = tuple(partitions)
        self.is_empty = not self.partitions if session is None else not session.partitions
        self.session = session
        self._epoch = NO_SESSION_ID if session is None else session.epoch
        self._is_incremental = is_incremental

    @property
    def session_id(self) -> int:
        """Session id of the answer; 0 without a session."""
        return NO_SESSION_ID if self.session is None else self.session.session_id

    def look_again(self) -> None:
        """Time has passed: a follower's fetch looks at what is pending now."""
        if self.session is not None and self.session.follower is not None:
            self.partitions = tuple(self.session.pending.values())

    def take_moved(self) -> list[CachedPartition]:
        """Partitions to which something happened since they were looked at."""
        session = self.session
        if session is None or not session.moved:
            return []
        moved, session.moved = session.moved, {}
        return list(moved)

    def on_looked_at(self, cached: CachedPartition) -> None:
        """It is being looked at."""
        if self.session is not None:
            self.session.moved.pop(cached, None)

    def settle(self, results: Iterable[FetchResult], progress_of: ProgressOf) -> None:
        """All were looked at. The next fetches need not look at those of which nothing is left to tell.

        ``progress_of``: the follower's, if each of its fetches will find the same until something happens; else None.
        """
        session = self.session
        if session is None or session.epoch != self._epoch:
            return
        for cached, data in results:
            if not cached.is_news(data) and (progress := progress_of(cached)) is not None:
                session.settle(cached, progress)

    def response(self, results: Sequence[FetchResult]) -> FetchResponse:
        """The answer. A session answers with news only, and moves the served partitions to the end of its order."""
        session = self.session
        if session is None:
            return FetchResponse(responses=_grouped(results))
        if session.epoch != self._epoch:
            return FetchResponse(
                error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=session.session_id
            )  # a later request of the session overtook this one while it waited
        told = [(cached, data) for cached, data in results if not self._is_incremental or cached.is_news(data)]
        for cached, data in told:
            cached.remember(data)
            if data.records:
                session.move_to_end(cached)
        return FetchResponse(session_id=session.session_id, responses=_grouped(told))


class FetchSessionCache:
    """All sessions of one broker. ``topic_name`` finds the topic of an id; ``rng`` draws session ids."""

    __slots__ = (
        "_by_partition",
        "_eviction_ms",
        "_max_partitions",
        "_max_slots",
        "_of_clients",
        "_rng",
        "_sessions",
        "_topic_name",
    )

    def __init__(
        self,
        rng: Rng,
        topic_name: TopicNames,
        by_partition: SessionsByPartition,
        *,
        max_slots: int = 1000,
        eviction_ms: int = 120_000,
        max_partitions: int = CLIENT_PARTITIONS_MAX,
    ) -> None:
        """``by_partition``: whoever knows what happens to partitions tells the sessions of it by that.

        ``max_partitions``: in all sessions of clients.
        """
        self._by_partition = by_partition
        self._max_partitions = max_partitions
        self._of_clients = 0  # partitions
        self._rng = rng
        self._topic_name = topic_name
        self._max_slots = max_slots
        self._eviction_ms = eviction_ms
        self._sessions: dict[int, FetchSession] = {}  # least recently used first

    def open(
        self, request: FetchRequest, version: int, *, follower: Follower | None, now_ms: int, user: str = ANONYMOUS
    ) -> FetchContext:
        """The context for ``request``, of a follower or of a client that is this user.

        Raises KafkaError with the answer's top-level error: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or
        FETCH_SESSION_TOPIC_ID_ERROR.
        """
        uses_topic_ids = version >= FIRST_TOPIC_ID_VERSION
        if request.session_epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
            return self._continue(request, uses_topic_ids=uses_topic_ids, follower=follower, now_ms=now_ms, user=user)
        if (before := self._session_of(request.session_id, follower, user)) is not None:
            self._drop(before)
        partitions = {one[0]: CachedPartition(*one) for one in named(request, uses_topic_ids=uses_topic_ids)}
        session = None
        if request.session_epoch == INITIAL_EPOCH and partitions and not _has_long_names(request):
            session = self._create(partitions, follower, uses_topic_ids=uses_topic_ids, now_ms=now_ms, user=user)
        self._resolve(partitions.values(), session)
        return FetchContext(partitions.values(), session)

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, session_id: int) -> bool:
        return session_id in self._sessions

    # -- inside -----------------------------------------------------------------------------------------------------

    def _continue(
        self, request: FetchRequest, *, uses_topic_ids: bool, follower: Follower | None, now_ms: int, user: str
    ) -> FetchContext:
        session = self._session_of(request.session_id, follower, user)
        if session is None:
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
        if follower is not None and session.follower != follower:
            session.on_reincarnated(follower)
        if not session.partitions:
            self._drop(session)
            return FetchContext(())
        self._resolve(session.pending.values(), session)
        session.epoch = next_epoch(session.epoch)
        session.last_used_ms = now_ms
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        return FetchContext(session.pending.values(), session, is_incremental=True)

    def _update(self, session: FetchSession, request: FetchRequest) -> None:
        gone = session.forget(request) if request.forgotten_topics_data else ()
        added = session.update(request)
        if session.follower is not None:
            for cached in gone:
                self._by_partition.remove(cached)
            return
        self._of_clients += len(added) - len(gone)
        is_too_large = len(session.partitions) > SESSION_PARTITIONS_MAX or self._of_clients > self._max_partitions
        if is_too_large or _has_long_names(request):
            self._drop(session)
            raise KafkaError(
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
                f"fetch session {session.session_id} of {len(session.partitions)} partitions is too large, and closed",
            )

    def _drop(self, session: FetchSession) -> None:
        del self._sessions[session.session_id]
        if session.follower is None:
            self._of_clients -= len(session.partitions)
        else:
            for cached in session.partitions.values():
                self._by_partition.remove(cached)
            session.end()

    def _resolve(self, partitions: Iterable[CachedPartition], session: FetchSession | None) -> None:
        for cached in partitions:
            is_new = cached.tp is None and cached.resolve(self._topic_name)
            if is_new and session is not None and session.follower is not None:
                assert cached.tp is not None
                self._by_partition.add(cached.tp, cached, session)

    def _session_of(self, session_id: int, follower: Follower | None, user: str) -> FetchSession | None:
        """None also for somebody else's: its answers name topics, and it would miss what another one got."""
        session = self._sessions.get(session_id)
        if session is None or session.user != user:
            return None
        is_same = session.follower == follower or _broker_id(session.follower) == _broker_id(follower)
        return session if is_same else None

    def _close_earlier(self, follower: Follower, now_ms: int) -> None:
        """Sessions of its earlier incarnations and fetchers: nobody goes on with them, and each event costs for all."""
        for session in list(self._sessions.values()):
            known = session.follower
            if known is None or known.broker_id != follower.broker_id:
                continue
            is_unused = now_ms - session.last_used_ms > self._eviction_ms
            if is_unused or known.broker_epoch < follower.broker_epoch:
                self._drop(session)

    def _create(
        self,
        partitions: dict[PartitionKey, CachedPartition],
        follower: Follower | None,
        *,
        uses_topic_ids: bool,
        now_ms: int,
        user: str,
    ) -> FetchSession | None:
        if follower is not None:
            self._close_earlier(follower, now_ms)
        session = FetchSession(
            session_id=self._new_id(),
            partitions=partitions,
            follower=follower,
            uses_topic_ids=uses_topic_ids,
            created_ms=now_ms,
            last_used_ms=now_ms,
            user=user,
        )
        while not self._has_room_for(session):
            if not self._maybe_evict(session, now_ms):
                return None
        self._sessions[session.session_id] = session
        if follower is None:
            self._of_clients += len(partitions)
        return session

    def _has_room_for(self, newcomer: FetchSession) -> bool:
        if len(self._sessions) >= self._max_slots:
            return False
        return newcomer.follower is not None or self._of_clients + len(newcomer.partitions) <= self._max_partitions

    def _new_id(self) -> int:
        while True:
            session_id = self._rng.randrange(NO_SESSION_ID + 1, MAX_EPOCH)
            if session_id not in self._sessions:
                return session_id

    def _maybe_evict(self, newcomer: FetchSession, now_ms: int) -> bool:
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

    def _may_evict(self, newcomer: FetchSession, session: FetchSession, now_ms: int) -> bool:
        is_old = now_ms - session.created_ms > self._eviction_ms
        is_free_prey = newcomer.follower is not None and session.follower is None
        return (is_old or is_free_prey) and session.worth < newcomer.worth


def _broker_id(follower: Follower | None) -> int:
    """-1: a client."""
    return NO_NODE if follower is None else follower.broker_id


def _has_long_names(request: FetchRequest) -> bool:
    """Whether a topic is named that cannot exist, in up to 32 KiB. Sessions do not keep such names."""
    return any(len(topic.topic) > TOPIC_NAME_LENGTH_MAX for topic in request.topics)


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
