"""Planted bugs of transactions in a log: what is known of them, where it is kept, what consumers are told."""

from __future__ import annotations

from typing import Any

from aborted_model import ViolationError, run
from planted.registry import Suite

from minikafka.storage import snapshots
from minikafka.storage.aborted import AbortedTransactions
from minikafka.storage.appending import Appender
from minikafka.storage.cleaned_transactions import CleanedTransactions
from minikafka.storage.known_aborted import KnownAborted
from minikafka.storage.log import Log
from minikafka.storage.producer_state import ProducerState
from minikafka.storage.recovery import _Loader
from minikafka.storage.segment import Segment
from minikafka.storage.segment_list import SegmentList
from minikafka.storage.segment_names import TRANSACTION_INDEX_SUFFIX
from minikafka.storage.transaction_index import TransactionIndex

SUITE = Suite(
    "aborted",
    "read_committed consumers of a log with transactions",
    run,
    600,
    (ViolationError, AssertionError, KeyError),
)


@SUITE.replaces(ProducerState, "first_unstable_offset")
def a_marker_counts_before_it_is_replicated(state: Any, _high_watermark: int) -> int | None:
    """The end of a transaction may still be lost with a leader, and consumers read it already."""
    state._completed = []
    return next(iter(state._ongoing), None)


@SUITE.replaces(Log, "last_stable_offset")
def deleted_records_hold_the_offset_back(log: Any, high_watermark: int) -> int:
    """DeleteRecords above the beginning of an open transaction leaves the last stable offset before the log."""
    unstable = log.producers.first_unstable_offset(high_watermark)
    return high_watermark if unstable is None else min(unstable, high_watermark)


@SUITE.replaces(ProducerState, "enter_epoch")
def an_emptied_marker_tells_nothing(_state: Any, _header: Any) -> None:
    """Who fetched a cleaned log lets a producer write that was fenced, as it once did."""


@SUITE.replaces(ProducerState, "has_transactions")
def ended_transactions_need_no_replay(state: Any) -> bool:
    """A cut behind the high watermark does not open again what it cuts the marker of."""
    return bool(state._ongoing or state._completed)


@SUITE.replaces(Appender, "_check_open")
def a_follower_keeps_what_its_leader_has_cleaned_away(_appender: Any, _run: Any) -> None:
    """It was away for so long that the end of a transaction, open in its log, is gone, too."""


@SUITE.replaces(snapshots, "_look_for_open")
def a_snapshot_opens_what_the_cleaner_took(_state: Any, _segments: Any, _end_offset: int) -> None:
    """A transaction that was open then has no batch any more, nor an end."""


@SUITE.replaces(snapshots.SnapshotFiles, "missing_at")
def what_retention_took_is_forgotten(_files: Any, _offset: int, _segments: Any) -> None:
    """No snapshot is where the log begins: a restart knows nothing of producers whose batches went."""


@SUITE.plants()
def a_snapshot_opens_what_retention_took(patch: Any) -> None:
    """The records of a transaction that was open then were deleted, and the cleaner took its end."""
    look_for_open = snapshots._look_for_open

    def broken(state: Any, segments: Any, end_offset: int) -> None:
        before = {first: producer for first, producer in state.open_transactions if first < segments[0].base_offset}
        look_for_open(state, segments, end_offset)
        for first, producer_id in before.items():
            if state.get(producer_id).current_txn_first_offset < 0:
                state.get(producer_id).current_txn_first_offset = first
                state._ongoing[first] = producer_id
        state.restored()

    patch.setattr(snapshots, "_look_for_open", broken)


@SUITE.replaces(ProducerState, "_forget")
def nobody_remembers_that_there_were_transactions(state: Any, producer_ids: Any) -> int:
    """The producer was idle for long; then a cut does not open again what it cuts the marker of."""
    for producer_id in producer_ids:
        del state._entries[producer_id]
    return len(producer_ids)


@SUITE.plants()
def a_snapshot_from_before_the_log_is_believed(patch: Any) -> None:
    """Where there is no other one, producers are known as they were, and what they send next is refused."""
    patch.setattr(snapshots.SnapshotFiles, "missing_at", lambda *_: None)
    patch.setattr(snapshots.SnapshotFiles, "remove", lambda *_, **__: None)
    patch.setattr(snapshots, "_is_outdated", lambda *_: False)


@SUITE.replaces(TransactionIndex, "truncate")
def a_cut_leaves_the_index_as_it_was(_index: Any, _end_offset: int) -> None:
    """Consumers are told of a transaction whose marker was cut off."""


@SUITE.plants()
def a_cut_forgets_the_whole_index(patch: Any) -> None:
    """What was aborted before the cut is delivered."""
    truncate = Segment.truncate

    def broken(segment: Segment, position: int, end_offset: int) -> int:
        segment.known_aborted.forget()
        return truncate(segment, position, end_offset)

    patch.setattr(Segment, "truncate", broken)


@SUITE.replaces(Segment, "write_indexes")
def the_index_is_not_written(segment: Any) -> None:
    """Nothing is left of it once the segment is forgotten."""
    index = segment.index
    segment._disk.write_bytes(segment.path(".index"), index.offsets.encode())
    segment._disk.write_bytes(segment.path(".timeindex"), index.times.encode())
    segment._disk.unlink(segment.path(TRANSACTION_INDEX_SUFFIX))
    segment.known_aborted.forget()
    segment.is_index_written = True


@SUITE.replaces(KnownAborted, "expect")
def any_index_that_can_be_one_is_believed(known: Any, _checksum: int, *, is_there: bool = False) -> None:
    """One that was lost, or cut between two entries, passes for whole: readers get what was aborted."""
    known.are_there = is_there


@SUITE.plants()
def a_job_from_before_a_segment_was_closed_tells_what_was_aborted(patch: Any) -> None:
    """What was aborted between the beginning of the job and the end of the segment is forgotten."""
    learn = Segment.learn

    def learn_all(segment: Any, copy: Any, *, keeps_index: bool) -> None:
        copy.tail = None
        learn(segment, copy, keeps_index=keeps_index)

    patch.setattr(Segment, "learn", learn_all)


@SUITE.replaces(AbortedTransactions, "keep")
def what_was_found_must_stay_in_memory(_transactions: Any, _found: Any) -> None:
    """Where an answer takes more indexes than the cache holds, it is never given."""


@SUITE.plants()
def an_orderly_stop_lists_closed_segments_only(patch: Any) -> None:
    """The last index, which most logs have alone, is believed whatever it says."""
    prepare_store = SegmentList.prepare_store
    patch.setattr(SegmentList, "prepare_store", lambda listed, segments, *, is_last: prepare_store(listed, segments))


@SUITE.plants()
def recovery_believes_the_index(patch: Any) -> None:
    """A crash leaves one from before the last append or cut, and it is not made anew."""
    headers = _Loader._unreadable_headers

    def broken(loader: Any) -> Any:
        loader.unindexed = []
        return headers(loader)

    patch.setattr(_Loader, "_unreadable_headers", broken)


@SUITE.plants()
def the_search_ends_with_the_first_segment(patch: Any) -> None:
    """A transaction that ends in a later segment is not told of."""
    since = AbortedTransactions._since
    patch.setattr(AbortedTransactions, "_since", lambda found, offset: since(found, offset)[:1])


@SUITE.plants()
def the_search_ends_with_the_last_marker(patch: Any) -> None:
    """A later marker may end a transaction that began before; only the last stable offset tells."""

    def between(index: Any, start_offset: int, end_offset: int) -> list[Any]:
        return [one for one in index if start_offset <= one.last_offset and one.last_offset < end_offset]

    patch.setattr(TransactionIndex, "between", between)


@SUITE.replaces(CleanedTransactions, "is_aborted")
def the_cleaner_takes_aborted_records_for_others(_transactions: Any, _header: Any) -> bool:
    """They supersede what was committed."""
    return False


@SUITE.replaces(CleanedTransactions, "on_batch")
def the_cleaner_drops_markers_at_once(_transactions: Any, _header: Any) -> None:
    """Records of their transactions stay, open for ever."""


@SUITE.plants()
def the_cleaner_leaves_no_index(patch: Any) -> None:
    """An aborted record that had to stay, or is behind the pass, is delivered."""
    on_marker = CleanedTransactions.on_marker
    patch.setattr(CleanedTransactions, "on_marker", lambda *arguments: (on_marker(*arguments)[0], None))


@SUITE.plants()
def the_cleaner_knows_closed_segments_only(patch: Any) -> None:
    """A marker in the active segment ends a transaction in what is cleaned."""
    enter = CleanedTransactions.enter

    def broken(transactions: Any, start_offset: int, end_offset: int) -> None:
        transactions._segments = [one for one in transactions._segments if not one.is_active]
        enter(transactions, start_offset, end_offset)

    patch.setattr(CleanedTransactions, "enter", broken)
