"""Who may commit and fetch the offsets of a consumer group: the member epoch fences both (row G11).

A commit may come from an older epoch than the member is in now: heartbeats go on while it is under way. It counts for
the partitions that the member has had since then without a break, and is stale for all others (KIP-1251). In no epoch
a member commits for a partition that another member has: a member that gives partitions up several times in a row stays
in its epoch (Apache Kafka lets that pass).

The same goes for a classic member, which calls its epoch its generation: it learns of the next one from the answer to a
JoinGroup, and commits what it still has while it waits for that. Its errors are others, for it does not know the newer.
"""

from __future__ import annotations

from uuid import UUID

from minikafka.errors import ErrorCode
from minikafka.groups.consumer.group import ConsumerGroup
from minikafka.wire.messages.offset_fetch import OffsetFetchRequestGroup

COMMITS_FROM_VERSION = 9
"""Of OffsetCommit: members of a consumer group need one with member epochs."""


def commit_error(consumer: ConsumerGroup, member_id: str, member_epoch: int, version: int) -> ErrorCode:
    """Why an OffsetCommit is refused as a whole, or NONE. An epoch below 0 is a client without a group: tools."""
    if member_epoch < 0 and not consumer.subscriptions:
        return ErrorCode.NONE
    if member_id not in consumer.subscriptions:
        return ErrorCode.UNKNOWN_MEMBER_ID
    of_classic = is_classic(consumer, member_id)
    if version < COMMITS_FROM_VERSION and not of_classic:
        return ErrorCode.UNSUPPORTED_VERSION
    if not _is_never_good(consumer, member_id, member_epoch):
        return ErrorCode.NONE
    return ErrorCode.ILLEGAL_GENERATION if of_classic else ErrorCode.STALE_MEMBER_EPOCH


def transactional_error(consumer: ConsumerGroup, member_id: str, member_epoch: int, *, is_named: bool) -> ErrorCode:
    """The same for a TxnOffsetCommit, whose producer need not name its consumer."""
    if member_epoch < 0 and (not consumer.subscriptions or not is_named):
        return ErrorCode.NONE
    if member_id not in consumer.subscriptions:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.ILLEGAL_GENERATION if _is_never_good(consumer, member_id, member_epoch) else ErrorCode.NONE


def _is_never_good(consumer: ConsumerGroup, member_id: str, member_epoch: int) -> bool:
    """An epoch that the member has not had, or that is for nobody who is in the group: -1."""
    newest = consumer.current(member_id).member_epoch
    return member_epoch > newest or (member_epoch < 0 and member_epoch != newest)


def is_classic(consumer: ConsumerGroup, member_id: str) -> bool:
    """True for a member of the classic protocol."""
    known = consumer.subscriptions.get(member_id)
    return known is not None and known.classic is not None


def stale_error(consumer: ConsumerGroup, member_id: str, member_epoch: int) -> ErrorCode:
    """The error of a partition that :func:`is_stale`. A classic member in its present epoch is to join again.

    Any other one in its present epoch commits what it once had: by name, perhaps of an earlier topic with that name.
    STALE_MEMBER_EPOCH would let it try again with the epoch that it has. (librdkafka did so without a pause, and
    gave up no partition meanwhile.)
    """
    is_present = member_epoch == consumer.current(member_id).member_epoch
    if is_classic(consumer, member_id):
        return ErrorCode.REBALANCE_IN_PROGRESS if is_present else ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_present else ErrorCode.STALE_MEMBER_EPOCH


def is_stale(consumer: ConsumerGroup, member_id: str, member_epoch: int, topic_id: UUID, partition: int) -> bool:
    """True when another member has the partition, or this one has not had it since that epoch."""
    if consumer.owner_of(topic_id, partition) not in (None, member_id):
        return True
    current = consumer.currents.get(member_id)
    if current is None or member_epoch == current.member_epoch:
        return False
    since = current.epoch_of(topic_id, partition)
    return since is None or member_epoch < since


def fetch_error(consumer: ConsumerGroup, request: OffsetFetchRequestGroup) -> ErrorCode:
    """Why a group of an OffsetFetch is refused, or NONE."""
    if request.member_id is None and request.member_epoch < 0:
        return ErrorCode.NONE
    member_id = request.member_id or ""
    if member_id not in consumer.subscriptions:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if request.member_epoch == consumer.current(member_id).member_epoch:
        return ErrorCode.NONE
    return ErrorCode.ILLEGAL_GENERATION if is_classic(consumer, member_id) else ErrorCode.STALE_MEMBER_EPOCH
