"""What a :class:`~minikafka.replication.fetcher.ReplicaFetcher` asks its driver to do.

Effects are carried out in the order given, before the machine is called again. Those that change a log act on the log
that was handed to ``add_partitions``; the machine reads its new end from there.
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
    """Cut the log so that it ends at ``offset`` (or before, at a batch boundary), and its epoch cache with it.

    ``offset`` may be the log end: an epoch that was begun there and has no record is dropped all the same. Below the
    high watermark it is only the leader's word: :class:`~minikafka.replication.local_replica.LocalReplica` judges it.
    Answer with ``on_cut`` when it is done; nothing is fetched until then.
    """

    topic_partition: TopicPartition
    offset: int


class RestartAt(NamedTuple):
    """Throw the whole log away and begin an empty one at ``offset``, the leader's log start (row R13).

    Answer with ``on_cut`` when it is done.
    """

    topic_partition: TopicPartition
    offset: int


class Append(NamedTuple):
    """Append whole batches as the leader wrote them, then take over its offsets as in :class:`FollowOffsets`.

    Answer with ``on_appended`` or ``on_append_failed``. ``records`` is a slice of the response's buffer.
    ``end_offset``: by which the leader knows that they end; None when it did not say.
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


class Backoff(NamedTuple):
    """For the log only: the partition is left alone until ``until_ms`` because of ``error`` (row R12)."""

    topic_partition: TopicPartition
    error: ErrorCode
    until_ms: int


class Fenced(NamedTuple):
    """The source is in a later epoch than ``leader_epoch``: dropped until metadata adds it again (row R12)."""

    topic_partition: TopicPartition
    leader_epoch: int


class MarkFailed(NamedTuple):
    """Dropped for good, until it is added in another epoch: following it went wrong in a way a retry will not mend."""

    topic_partition: TopicPartition
    reason: str


class Wait(NamedTuple):
    """Nothing to do before ``until_ms``, or at all (None), unless partitions are added or throttles change (row R8)."""

    until_ms: int | None


Effect: TypeAlias = (
    SendFetch
    | SendOffsetsForLeaderEpoch
    | SendListOffsets
    | TruncateTo
    | RestartAt
    | Append
    | FollowOffsets
    | Backoff
    | Fenced
    | MarkFailed
    | Wait
)
