"""A fetch session at its server: the partitions of one fetcher, and which of them its next fetch has to look at.

A fetch of a client looks at all of them. One of a *follower* looks at the ``pending`` ones only; the others are
*settled*. A leader may lead thousands of partitions, of which most have no news, and its followers fetch all the time::

              looked at, told all, at the log end, in the ISR
    PENDING ----------------------------------------------------> SETTLED
            <----------------------------------------------------
              named by a request; something happened to the partition; its follower registered anew

For a settled partition each fetch of the session repeats the last one, with the same answer: no news. The follower is
caught up at the time of that fetch (row R17), which :class:`~minikafka.replication.progress.ReplicaProgress` reads from
the session. *Something happened* is whatever may change the answer, or what the leader does about the fetch: records,
high watermark, log start, leader, ISR. The node says so (:meth:`SessionsByPartition.note`) before another fetch can
come. Only of records that a roll or the cleaner writes before their commit it may say so in its next turn, and a fetch
in between waits until then. A partition that changes while its fetch is under way stays pending (``moved``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias
from uuid import UUID

from minikafka.errors import ErrorCode
from minikafka.model import ANONYMOUS, NO_OFFSET, ZERO_TOPIC_ID, TopicPartition
from minikafka.replication.fetch_session import INITIAL_EPOCH, next_epoch
from minikafka.replication.fetch_state import UNKNOWN_HIGH_WATERMARK
from minikafka.replication.progress import ReplicaProgress
from minikafka.wire.messages.fetch import FetchPartition, FetchRequest, PartitionData

PartitionKey: TypeAlias = tuple[int | str, int]
"""The topic as the request's version names it, and the partition. An id as its number: UUIDs hash in Python."""
TopicNames: TypeAlias = Callable[[UUID], str | None]


class Follower(NamedTuple):
    """A broker that fetches as a follower, in one incarnation (KIP-903)."""

    broker_id: int
    broker_epoch: int


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
        "key",
        "partition",
        "progress",
        "topic",
        "topic_id",
        "tp",
    )

    def __init__(self, key: PartitionKey, topic: str, topic_id: UUID, asked: FetchPartition) -> None:
        """``key``: in the session."""
        self.key = key
        self.topic = topic
        self.topic_id = topic_id
        self.partition = asked.partition
        self.asked = asked
        self.tp: TopicPartition | None = None
        self.progress: ReplicaProgress | None = None  # the follower's, while the partition is settled
        self._high_watermark = NO_OFFSET
        self._last_stable_offset = NO_OFFSET
        self._log_start_offset = NO_OFFSET

    def resolve(self, topic_name: TopicNames) -> bool:
        """Find the topic's name, once. True when it was found now."""
        if self.tp is not None:
            return False
        name = self.topic if self.topic_id is ZERO_TOPIC_ID else topic_name(self.topic_id)
        if name is None:
            return False
        self.tp = TopicPartition(name, self.partition)
        return True

    def ask(self, asked: FetchPartition) -> None:
        """The fetcher names it anew. A follower that names its high watermark may have dropped what it was told."""
        self.asked = asked
        if asked.high_watermark != UNKNOWN_HIGH_WATERMARK:
            self._high_watermark = NO_OFFSET

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
class FetchSession:
    """The partitions of one fetcher, in the order of reading. ``follower`` is None for a client's session, which is of
    its ``user``."""

    session_id: int
    partitions: dict[PartitionKey, CachedPartition]
    follower: Follower | None
    uses_topic_ids: bool
    created_ms: int
    last_used_ms: int
    """When its last fetch came: of all settled partitions, too."""
    user: str = ANONYMOUS
    epoch: int = next_epoch(INITIAL_EPOCH)
    pending: dict[PartitionKey, CachedPartition] = field(init=False)
    """To be looked at by the next fetch, in the order of reading. Of a client: ``partitions`` itself."""
    moved: dict[CachedPartition, None] = field(default_factory=dict, init=False)
    """Pending ones to which something happened since they were looked at last."""

    def __post_init__(self) -> None:
        self.pending = self.partitions if self.follower is None else dict(self.partitions)

    @property
    def worth(self) -> tuple[bool, int]:
        """Of two sessions the cheaper one has to go first."""
        return self.follower is not None, len(self.partitions)

    def update(self, request: FetchRequest) -> list[CachedPartition]:
        """Partitions that a request names, with new entries or for the first time. Returns the new ones."""
        added: list[CachedPartition] = []
        for key, topic, topic_id, asked in named(request, uses_topic_ids=self.uses_topic_ids):
            cached = self.partitions.get(key)
            if cached is None:
                cached = self.partitions[key] = self.pending[key] = CachedPartition(key, topic, topic_id, asked)
                added.append(cached)
            cached.ask(asked)
            if cached.progress is not None:
                self.unsettle(cached)
        return added

    def forget(self, request: FetchRequest) -> list[CachedPartition]:
        """Drop the partitions that a request forgets; returns them."""
        gone: list[CachedPartition] = []
        for forgotten in request.forgotten_topics_data:
            topic = forgotten.topic_id.int if self.uses_topic_ids else forgotten.topic
            for partition in forgotten.partitions:
                cached = self.partitions.pop((topic, partition), None)
                if cached is not None:
                    self.unsettle(cached)
                    self.pending.pop((topic, partition), None)
                    self.moved.pop(cached, None)
                    gone.append(cached)
        return gone

    def move_to_end(self, cached: CachedPartition) -> None:
        """It was served: others go first now (row R8)."""
        key = cached.key
        for order in (self.partitions, self.pending):
            if order.get(key) is cached:
                order[key] = order.pop(key)

    def unsettle(self, cached: CachedPartition) -> None:
        """The next fetch has to look at the partition. Up to the last one it was settled."""
        self._end_repeating(cached)
        self.pending[cached.key] = cached

    def end(self) -> None:
        """A follower's session is over. A fetch of it that still waits settles nothing any more."""
        for cached in self.partitions.values():
            self._end_repeating(cached)
        self.partitions.clear()

    def note(self, cached: CachedPartition) -> None:
        """Something happened to the partition."""
        if cached.progress is not None:
            self.unsettle(cached)
        self.moved[cached] = None

    def on_reincarnated(self, follower: Follower) -> None:
        """The same broker, registered anew: its leader has to be told of every partition (KIP-903)."""
        self.follower = follower
        for cached in self.partitions.values():
            self.unsettle(cached)

    def settle(self, cached: CachedPartition, progress: ReplicaProgress) -> None:
        """The fetch that is under way looked at it, and so need not the next ones, unless something has happened."""
        if self.follower is not None and cached not in self.moved and self.partitions.get(cached.key) is cached:
            del self.pending[cached.key]
            progress.begin_repeating(self)
            cached.progress = progress

    def _end_repeating(self, cached: CachedPartition) -> None:
        progress, cached.progress = cached.progress, None
        if progress is not None:
            progress.end_repeating(self)


def named(request: FetchRequest, *, uses_topic_ids: bool) -> Iterable[tuple[PartitionKey, str, UUID, FetchPartition]]:
    """Key, topic and entry of each partition that a request names."""
    for topic in request.topics:
        name, topic_id = ("", topic.topic_id) if uses_topic_ids else (topic.topic, ZERO_TOPIC_ID)
        key = topic_id.int if uses_topic_ids else name
        for asked in topic.partitions:
            yield (key, asked.partition), name, topic_id, asked


class SessionsByPartition:
    """Followers' sessions by partition: whom an event of a partition concerns."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[TopicPartition, dict[CachedPartition, FetchSession]] = {}

    def add(self, tp: TopicPartition, cached: CachedPartition, session: FetchSession) -> None:
        """``cached`` is ``tp`` in that session."""
        self._entries.setdefault(tp, {})[cached] = session

    def remove(self, cached: CachedPartition) -> None:
        """It is in no session any more."""
        if cached.tp is not None and (entries := self._entries.get(cached.tp)) is not None:
            entries.pop(cached, None)
            if not entries:
                del self._entries[cached.tp]

    def note(self, tp: TopicPartition) -> None:
        """Something happened to the partition that may concern followers."""
        entries = self._entries.get(tp)
        if entries is not None:
            for cached, session in entries.items():
                session.note(cached)

    def sessions(self, tp: TopicPartition) -> list[FetchSession]:
        """Sessions that have it."""
        return list(self._entries.get(tp, {}).values())

    def settled(self, tp: TopicPartition) -> list[CachedPartition]:
        """The partition in those sessions whose next fetch need not look at it."""
        return [cached for cached in self._entries.get(tp, ()) if cached.progress is not None]

    def __len__(self) -> int:
        return len(self._entries)
