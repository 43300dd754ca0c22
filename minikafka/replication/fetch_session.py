"""Incremental fetch sessions, client side: a request names only what changed (row R6, KIP-227).

Both sides of a session remember the same partitions. A session has an id from the server, and an epoch that counts
requests::

    NEW (id 0, epoch 0)        --full request, answered with an id-->        OPEN (id, epoch 1)
    NEW                        --answered with id 0 (server is full)-->      NEW
    OPEN (id, n)               --incremental request answered-->             OPEN (id, n + 1; after 2^31-1 comes 1)
    OPEN                       --FETCH_SESSION_ID_NOT_FOUND-->               NEW
    OPEN                       --any other error, or no answer-->            REOPEN (id, epoch 0)
    REOPEN                     --full request; the server drops the old session--> as NEW

Changes made while a request is under way go into the next one. After a failure everything is sent again, so it does not
matter whether the server saw the lost request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple
from uuid import UUID

from minikafka.errors import ErrorCode
from minikafka.model import TopicPartition
from minikafka.wire.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic

NO_SESSION_ID: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
MAX_EPOCH: Final = 0x7FFFFFFF

SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
"""Errors that a full request mends at once, without a back-off."""


def next_epoch(epoch: int) -> int:
    """The session epoch after ``epoch``; it never becomes 0 again."""
    return 1 if epoch == MAX_EPOCH else epoch + 1


class SessionRequest(NamedTuple):
    """The session's part of a FetchRequest."""

    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic]


class _Wanted(NamedTuple):
    topic_id: UUID
    partition: FetchPartition


class FetchSessionClient:
    """The partitions one fetcher wants from one server. The cost of a request is that of the changes."""

    __slots__ = ("_changed", "_epoch", "_forgotten", "_session_id", "_told", "_wanted")

    def __init__(self) -> None:
        self._session_id = NO_SESSION_ID
        self._epoch = INITIAL_EPOCH
        self._wanted: dict[TopicPartition, _Wanted] = {}
        self._changed: dict[TopicPartition, None] = {}
        self._told: dict[TopicPartition, UUID] = {}  # partitions in the server's session
        self._forgotten: dict[tuple[TopicPartition, UUID], None] = {}

    # -- what is wanted ---------------------------------------------------------------------------------------------

    def update(self, tp: TopicPartition, topic_id: UUID, partition: FetchPartition) -> None:
        """Ask for ``partition`` from now on; do not change it afterwards. Its place in the order is kept."""
        told = self._told.get(tp)
        if told is not None and told.int != topic_id.int:
            self._forgotten[tp, told] = None
            del self._told[tp]
        if self._forgotten:
            self._forgotten.pop((tp, topic_id), None)
        self._wanted[tp] = _Wanted(topic_id, partition)
        self._changed[tp] = None

    def forget(self, tp: TopicPartition) -> None:
        """Stop asking for it; an unknown partition is ignored."""
        if self._wanted.pop(tp, None) is None:
            return
        self._changed.pop(tp, None)
        told = self._told.get(tp)
        if told is not None:
            self._forgotten[tp, told] = None

    def move_to_end(self, tp: TopicPartition) -> None:
        """Move it to the end of the next full request, so that others go first (row R8).

        A server with a session rotates its partitions by itself.
        """
        wanted = self._wanted.pop(tp, None)
        if wanted is not None:
            self._wanted[tp] = wanted

    def asked(self, tp: TopicPartition) -> FetchPartition | None:
        """The partition's entry. Between :meth:`build` and the answer it is the one in the request."""
        wanted = self._wanted.get(tp)
        return None if wanted is None else wanted.partition

    def __contains__(self, tp: TopicPartition) -> bool:
        return tp in self._wanted

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._wanted)

    def __len__(self) -> int:
        return len(self._wanted)

    # -- request and response ---------------------------------------------------------------------------------------

    @property
    def session_id(self) -> int:
        """The session id from the server; 0 without a session."""
        return self._session_id

    def build(self) -> SessionRequest:
        """The next request: all partitions in a new session, else the changed ones. One request at a time."""
        if self._epoch == INITIAL_EPOCH:
            named: Iterable[TopicPartition] = self._wanted
            self._told.clear()
            self._forgotten.clear()
        else:
            named = self._changed
        request = SessionRequest(
            self._session_id,
            self._epoch,
            _grouped(self._wanted, named),
            _forgotten_grouped(self._forgotten) if self._forgotten else [],
        )
        for tp in named:
            self._told[tp] = self._wanted[tp].topic_id
        for tp, topic_id in self._forgotten:
            if tp not in self._wanted and self._told.get(tp) == topic_id:
                del self._told[tp]
        self._forgotten.clear()
        self._changed.clear()
        return request

    def on_response(self, error_code: int, session_id: int) -> bool:
        """Top-level fields of the answer. False: ignore its partitions; the next request is full."""
        if error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._session_id = NO_SESSION_ID
            self._epoch = INITIAL_EPOCH
            return False
        if error_code != ErrorCode.NONE:
            self.on_failed()
            return False
        if session_id == NO_SESSION_ID:
            self._session_id, self._epoch = NO_SESSION_ID, INITIAL_EPOCH
        elif session_id != self._session_id:
            self._session_id, self._epoch = session_id, next_epoch(INITIAL_EPOCH)
        else:
            self._epoch = next_epoch(self._epoch)
        return True

    def on_failed(self) -> None:
        """No usable answer: start a new session, and let the server drop the old one."""
        self._epoch = INITIAL_EPOCH

    def close(self) -> SessionRequest | None:
        """A last request that closes the session on the server; None without a session."""
        session_id, self._session_id, self._epoch = self._session_id, NO_SESSION_ID, INITIAL_EPOCH
        return None if session_id == NO_SESSION_ID else SessionRequest(session_id, FINAL_EPOCH, [], [])


def _grouped(wanted: dict[TopicPartition, _Wanted], named: Iterable[TopicPartition]) -> list[FetchTopic]:
    """Neighbours of one topic share an entry; more grouping would change the order."""
    topics: list[FetchTopic] = []
    last: FetchTopic | None = None
    for tp in named:
        topic_id, partition = wanted[tp]
        if last is None or last.topic != tp.topic or last.topic_id != topic_id:
            last = FetchTopic(topic=tp.topic, topic_id=topic_id)
            topics.append(last)
        last.partitions.append(partition)
    return topics


def _forgotten_grouped(forgotten: Iterable[tuple[TopicPartition, UUID]]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, UUID], ForgottenTopic] = {}
    for tp, topic_id in forgotten:
        key = (tp.topic, topic_id)
        if key not in topics:
            topics[key] = ForgottenTopic(topic=tp.topic, topic_id=topic_id)
        topics[key].partitions.append(tp.partition)
    return list(topics.values())
