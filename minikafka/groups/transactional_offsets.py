"""Offsets that producers commit in transactions: TxnOffsetCommit, and the ends of transactions (KIP-98, KIP-447).

Such an offset is a record of the transaction in the group's partition of the offsets topic. Once that is committed, the
offset is *pending*: nobody sees it, but who asks for stable offsets is told to wait. The transaction's end is a marker
in the same log. When that is committed, a commit makes the pending offsets of its producer visible, all at once, and an
abort drops them (row T40). Records and markers count in the order of the log, when the shard is loaded as well (row
T44). What is over leaves nothing behind (row T46).

Producers are told apart by their ids alone, as in Apache Kafka: the log has refused records and markers of old epochs.

Whether the transaction is open is the business of its own coordinator, which the handler has asked.
"""

from __future__ import annotations

from functools import partial

from minikafka.coordination.effects import Token
from minikafka.errors import ErrorCode
from minikafka.groups.answers import txn_commit_answer
from minikafka.groups.commits import commit_records, offsets_written, stale_partitions
from minikafka.groups.consumer.offsets import transactional_error
from minikafka.groups.deletion import look_for_deleted_topics
from minikafka.groups.group import GroupState
from minikafka.groups.membership import member_error
from minikafka.groups.shard import Shard
from minikafka.model import ProducerIdentity
from minikafka.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

GROUP_ID_NOT_FOUND_FROM_VERSION = 6


def txn_offset_commit(shard: Shard, request: TxnOffsetCommitRequest, version: int, token: Token) -> None:
    """Write the offsets in the producer's transaction; the response waits until the records are committed.

    The caller has checked that the topics exist and the transaction is open.
    """
    error = _refusal(shard, request, version)
    if error is not ErrorCode.NONE:
        shard.respond(token, txn_commit_answer(request, error))
        return
    group = shard.group_or_new(request.group_id)
    response = txn_commit_answer(request, ErrorCode.NONE)
    records = commit_records(
        shard, group, request, response, stale_partitions(group, request.member_id, request.generation_id)
    )
    if _is_too_large(shard, request.producer_id, len(records)):
        shard.respond(token, txn_commit_answer(request, ErrorCode.INVALID_COMMIT_OFFSET_SIZE))
    elif records:
        producer = ProducerIdentity(request.producer_id, request.producer_epoch)
        shard.write(group, records, partial(offsets_written, shard, token, response), producer)
    else:
        shard.respond(token, response)
    shard.maybe_forget(group)


def _is_too_large(shard: Shard, producer_id: int, records: int) -> bool:
    """A marker is applied in one step, whatever the groups: it must not take long."""
    transaction = shard.open_transactions.get(producer_id)
    before = 0 if transaction is None else transaction.records
    return before + records > shard.settings.transaction_offsets_max


def _refusal(shard: Shard, request: TxnOffsetCommitRequest, version: int) -> ErrorCode:
    """Row T43: a producer that names its consumer must name one of the current generation, which may still synchronize.

    One that names none (clients before version 3) is let pass.
    """
    if request.producer_id < 0 or request.producer_epoch < 0:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    generation_id = request.generation_id
    group = shard.groups.get(request.group_id)
    if group is None:
        if generation_id < 0:
            return ErrorCode.NONE
        known = version >= GROUP_ID_NOT_FOUND_FROM_VERSION
        return ErrorCode.GROUP_ID_NOT_FOUND if known else ErrorCode.ILLEGAL_GENERATION
    is_named = bool(request.member_id) or request.group_instance_id is not None
    if group.consumer is not None and group.is_consumer:
        return transactional_error(group.consumer, request.member_id, generation_id, is_named=is_named)
    if generation_id < 0 and (not is_named or group.is_in(GroupState.EMPTY)):
        return ErrorCode.NONE
    error = member_error(group, request.member_id, request.group_instance_id)
    if error is ErrorCode.NONE and generation_id != group.generation_of(request.member_id):
        error = ErrorCode.ILLEGAL_GENERATION
    return error


def end_transaction(shard: Shard, producer_id: int, *, commits: bool) -> list[str]:
    """A marker is committed. The groups with offsets of deleted topics that could not be deleted while it was open."""
    orphaned = []
    transaction = shard.open_transactions.pop(producer_id, None)
    for group_id in () if transaction is None else transaction.groups:
        group = shard.groups.get(group_id)
        if group is None:
            continue
        settled = group.pending.partitions_of(producer_id)
        for at, offset in group.pending.end(producer_id, commits=commits).items():
            group.set_offset(at, offset)
        left = [(at, group.offsets[at].value) for at in settled if at in group.offsets]
        if any(shard.is_of_deleted_topic(at.topic, value) for at, value in left):
            orphaned.append(group_id)
        shard.maybe_forget(group)
    return orphaned


def on_marker(shard: Shard, producer_id: int, *, commits: bool) -> None:
    """:func:`end_transaction` in a shard that is Active."""
    if orphaned := end_transaction(shard, producer_id, commits=commits):
        look_for_deleted_topics(shard, orphaned)
