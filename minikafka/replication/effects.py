"""Effects of a :class:`~minikafka.replication.fetcher.ReplicaFetcher`, for its driver.

The driver carries them out in the order given, before it calls the machine again. Effects on a log act on the log
that was passed to ``add_partitions``; the machine reads the new log end from there.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from minikafka.errors import ErrorCode
from minikafka.model import TopicPartition
from minikafka.wire.messages.fetch import FetchRequest
from minikafka.wire.messages.list_offsets import ListOffsetsRequest
from minikafka.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from minikafka.wire.schema import Buffer


class SendFetch(NamedTuple):
    """Send it to the source; answer with ``on_fetch_response`` or ``on_request_failed``."""

    request: FetchRequest


class SendOffsetsForLeaderEpoch(NamedTuple):
    """Send it to the source; answer with ``on_epoch_end_offsets`` or ``on_request_failed``."""

    request: OffsetForLeaderEpochRequest


class SendListOffsets(NamedTuple):
    """Send both to the source; answer with ``on_list_offsets`` or ``on_request_failed``."""

    earliest: ListOffsetsRequest
    latest: ListOffsetsRequest


class TruncateTo(NamedTuple):
    """Cut the log and its epoch cache at ``offset``, or before it at a batch boundary.

    ``offset`` may be the log end: that drops an epoch that began there and has no record. An ``offset`` below the high
    watermark is only the leader's word: :class:`~minikafka.replication.local_replica.LocalReplica` judges it.
    Answer with ``on_cut`` when it is done; nothing is fetched until then.
    """

    topic_partition: TopicPartition
    offset: int


class FetchAgain(NamedTuple):
    """Cut the log at ``offset``: what the leader's has from there on, and has cleaned, may be something else.

    Answer with ``on_cut`` when it is done; nothing is fetched until then.
    """

    topic_partition: TopicPartition
    offset: int


class RestartAt(NamedTuple):
    """Delete the whole log and begin an empty one at ``offset`` (row R13): the leader's log start, or the beginning of
    the batch that it is in.

    Answer with ``on_cut`` when it is done.
    """

    topic_partition: TopicPartition
    offset: int


class Append(NamedTuple):
    """Append whole batches as the leader wrote them, then take over its offsets as in :class:`FollowOffsets`.

    Answer with ``on_appended`` or ``on_append_failed``. ``records`` is a slice of the response's buffer.
    ``end_offset``: the records end there at the latest, by the leader's word; None when the answer has no such field.
    """

    topic_partition: TopicPartition
    records: Buffer
    high_watermark: int
    log_start_offset: int
    end_offset: int | None = None


class FollowOffsets(NamedTuple):
    """High watermark = min(own log end, the leader's); log start = the leader's (row R11). Needs no answer."""

    topic_partition: TopicPartition
    high_watermark: int
    log_start_offset: int


class Delayed(NamedTuple):
    """For the node's log only: after ``error`` the partition is not fetched until ``until_ms`` (row R12)."""

    topic_partition: TopicPartition
    error: ErrorCode
    until_ms: int


class Fenced(NamedTuple):
    """The source is in a later epoch than ``leader_epoch``: dropped until metadata adds it again (row R12)."""

    topic_partition: TopicPartition
    leader_epoch: int


class MarkFailed(NamedTuple):
    """Partition dropped until it is added in another epoch: a retry would not mend the failure."""

    topic_partition: TopicPartition
    reason: str


class Wait(NamedTuple):
    """Do nothing before ``until_ms`` (None: for ever), unless partitions are added or throttles change (row R8)."""

    until_ms: int | None


Effect: TypeAlias = (
    SendFetch
    | SendOffsetsForLeaderEpoch
    | SendListOffsets
    | TruncateTo
    | FetchAgain
    | RestartAt
    | Append
    | FollowOffsets
    | Delayed
    | Fenced
    | MarkFailed
    | Wait
)
