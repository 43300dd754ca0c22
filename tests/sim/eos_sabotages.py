"""Planted bugs for transactions on whole clusters, in each part that takes part: the coordinator and its markers, what
leaders verify, producer state, last stable offset, aborted transactions, the offsets of groups, and our client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from fault_sabotages import suite_of

from minikafka.broker import produced_batches
from minikafka.broker.drivers import groups as groups_driver
from minikafka.broker.drivers import markers as markers_module
from minikafka.broker.drivers.markers import Markers
from minikafka.broker.handlers import produce
from minikafka.broker.transaction_admission import TransactionAdmission
from minikafka.client.consumer import Consumer
from minikafka.client.consuming.fetched import Fetched
from minikafka.errors import ErrorCode
from minikafka.groups import transactional_offsets
from minikafka.groups.group import Group
from minikafka.groups.offsets import PendingOffsets
from minikafka.model import NO_OFFSET, NO_PRODUCER_ID, TopicPartition
from minikafka.records.batch import BatchHeader
from minikafka.storage.aborted import AbortedTransactions
from minikafka.storage.cleaning import Cleaner, Kept
from minikafka.storage.log import Log
from minikafka.storage.producer_state import ProducerState
from minikafka.transactions import beginning, loading
from minikafka.transactions.shard import Done, Entry, Shard
from minikafka.transactions.transaction import Transaction, TransactionState
from minikafka.wire.messages.write_txn_markers import WritableTxnMarker

TRANSACTIONS = suite_of(
    "exactly once",
    "whole clusters with transactions, whose nodes and applications die",
    *("kill", "kill leader", "pause", "kill at operation"),
    scenes=("transactions",),
    duration_s=5.0,
)
COMPACTED = suite_of(
    "exactly once where it is cleaned",
    "whole clusters with transactions in compacted topics, whose nodes and applications die",
    *("kill", "kill leader", "pause", "kill at operation"),
    scenes=("transactions", "compacted topics"),
)


# -- the coordinator and its markers ----------------------------------------------------------------------------------


@TRANSACTIONS.replaces(loading, "_restore")
def the_next_coordinator_forgets_markers(shard: Shard, transaction: Transaction) -> None:
    """Markers that were not written when the coordinator died are never written."""
    entry = Entry(transaction, idle_since_ms=shard.now_ms, expires_ms=shard.now_ms + transaction.timeout_ms)
    shard.entries[transaction.transactional_id] = entry
    if transaction.state is TransactionState.ONGOING:
        shard.wake(entry, entry.expires_ms)


@TRANSACTIONS.replaces(beginning, "abort_for_another")
def whoever_begins_goes_on_with_what_is_open(shard: Shard, entry: Entry, done: Done) -> None:
    """The transaction of the producer before is left open, and the next one is let in."""
    entry.transaction = replace(entry.transaction, state=TransactionState.EMPTY, partitions=frozenset())
    done(ErrorCode.CONCURRENT_TRANSACTIONS)


_sound_marker = markers_module._marker


@TRANSACTIONS.replaces(markers_module, "_marker")
def every_marker_commits(order: Any, partitions: list[TopicPartition]) -> WritableTxnMarker:
    """The marker does not carry what was decided."""
    marker = _sound_marker(order, partitions)
    marker.transaction_result = True
    return marker


@TRANSACTIONS.replaces(Markers, "_try_again")
async def markers_are_sent_once(_markers: Markers, _order: Any, _partitions: list[TopicPartition]) -> None:
    """What a node did not take is not sent again."""


# -- what leaders verify ----------------------------------------------------------------------------------------------


@TRANSACTIONS.plants()
def the_last_marker_ends_the_next_transaction(patch: Any) -> None:
    """A leader waits for the end of the transaction before, and takes its marker for the end of the one that begins."""
    admit_all = TransactionAdmission.admit_all

    async def admit(*args: Any, standing: Callable[[], Any], **how: Any) -> Any:
        return await admit_all(*args, standing=cache(standing), **how)

    patch.setattr(TransactionAdmission, "admit_all", admit)
    patch.setattr(produce, "ASKED_AT_MOST", 0)


@TRANSACTIONS.replaces(produced_batches, "_must_verify")
def leaders_ask_nobody(_partition: Any, _header: BatchHeader) -> bool:
    """Records begin transactions that no coordinator knows of."""
    return False


# -- producer state ---------------------------------------------------------------------------------------------------


@TRANSACTIONS.replaces(ProducerState, "is_in_transaction")
def an_open_transaction_is_everybodys(state: ProducerState, header: BatchHeader) -> bool:
    """A record of another epoch is taken for one of the open transaction."""
    entry = state.get(header.producer_id)
    return entry is not None and entry.current_txn_first_offset != NO_OFFSET


# -- last stable offset, and who was aborted --------------------------------------------------------------------------


@TRANSACTIONS.replaces(Log, "last_stable_offset")
def everything_is_stable(_log: Log, high_watermark: int) -> int:
    """Read_committed consumers get what is below the high watermark."""
    return high_watermark


@TRANSACTIONS.plants()
def followers_index_no_aborted_transactions(patch: Any) -> None:
    """A follower replays markers, but does not note who was aborted."""
    patch.setattr("minikafka.storage.appending.replay", _replay_without_index)


def _replay_without_index(producers: ProducerState, header: BatchHeader, batch: Any) -> None:
    from minikafka.storage.snapshots import replay

    replay(producers, header, batch)


@TRANSACTIONS.replaces(AbortedTransactions, "_since")
def only_the_last_segment_knows_who_was_aborted(aborted: AbortedTransactions, _start_offset: int) -> list[Any]:
    """The indexes of closed segments are not asked."""
    active = aborted._log.segments.active
    return [active] if active.known_aborted.are_there else []


# -- the cleaner ------------------------------------------------------------------------------------------------------


@COMPACTED.replaces(Cleaner, "_clean_control")
def markers_go_with_the_first_pass(cleaner: Cleaner, unchanged: Kept, header: BatchHeader) -> Kept | None:
    """Whoever is behind keeps the transaction open."""
    return None if header.has_producer_id and header.base_offset < cleaner._end_offset else unchanged


# -- offsets of groups ------------------------------------------------------------------------------------------------


@TRANSACTIONS.replaces(transactional_offsets, "end_transaction")
def offsets_of_aborted_transactions_count(shard: Any, producer_id: int, *, commits: bool) -> list[str]:
    """An abort makes pending offsets visible, too."""
    transaction = shard.open_transactions.pop(producer_id, None)
    for group_id in () if transaction is None else transaction.groups:
        group = shard.groups[group_id]
        for at, offset in group.pending.end(producer_id, commits=True).items():
            group.set_offset(at, offset)
    return []


@TRANSACTIONS.replaces(PendingOffsets, "end")
def pending_offsets_stay_pending(
    _pending: PendingOffsets, _producer_id: int, *, commits: bool
) -> Mapping[TopicPartition, Any]:
    """No marker makes an offset visible."""
    return {}


@TRANSACTIONS.replaces(Group, "is_unstable")
def unstable_offsets_are_told(_group: Group, _partition: TopicPartition) -> bool:
    """Whoever looks at an offset that is being committed gets the one before."""
    return False


@TRANSACTIONS.plants()
def a_new_coordinator_takes_pending_offsets_for_committed(patch: Any) -> None:
    """A shard that is loaded does not look whether an offset is of a transaction."""

    def replay(coordinator: Any, batch: BatchHeader, record: Any, now_ms: int) -> bool:
        if batch.is_control or record.key is None:
            return False
        return bool(coordinator.replay(record.key, record.value, now_ms, NO_PRODUCER_ID))

    patch.setattr(groups_driver, "_replay", replay)


# -- our client -------------------------------------------------------------------------------------------------------


@TRANSACTIONS.replaces(Fetched, "_is_left_out")
def consumers_get_what_was_aborted(_fetched: Fetched, _at: int, header: BatchHeader) -> bool:
    """The list of aborted transactions is not looked at."""
    return header.is_control


@TRANSACTIONS.replaces(Consumer, "rewind")
def nobody_reads_again_what_was_aborted(_consumer: Consumer) -> None:
    """After an aborted transaction a consumer goes on behind its records."""
