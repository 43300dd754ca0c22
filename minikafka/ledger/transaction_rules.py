"""The rules of transactions, each over a whole history. ``transaction_checker`` has their theory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Final

from minikafka.ledger.offsets import by_offset
from minikafka.ledger.partition import PartitionHistory, Reader
from minikafka.ledger.transactions import Copied, Transaction, TransactionHistory


def torn_transaction(history: TransactionHistory) -> Iterator[str]:
    """Visible in part: read_committed consumers were handed some of its records, and a reader was not handed others."""
    for transaction, (record, partition, reader) in _missing(history):
        if transaction.is_committed and transaction.handed_at:
            seen = next(iter(transaction.handed_at))
            yield (
                f"{seen} of {transaction.name} was handed out, and {reader.name}, which read {partition} to its end "
                f"at {reader.highest}, was not handed {record}"
            )


def lost_commit(history: TransactionHistory) -> Iterator[str]:
    """Committed, or acknowledged outside of transactions, and missing for a reader."""
    for transaction, (record, partition, reader) in _missing(history):
        if transaction.is_committed and not transaction.handed_at:
            yield (
                f"{transaction.name} was committed, and {reader.name}, which read {partition} to its end at "
                f"{reader.highest}, was not handed {record}"
            )
    for partition, view in history.views.items():
        for record, (offset, reader) in view.gone.items():
            if record not in history.of_record:
                yield (
                    f"{record} was acknowledged at {offset}, outside of transactions, and {reader.name}, which read "
                    f"{partition} to its end at {reader.highest}, was not handed it"
                )


def aborted_read(history: TransactionHistory) -> Iterator[str]:
    """Handed to a read_committed consumer, and its transaction was aborted, or its commit never asked for (G1a)."""
    for transaction in history.transactions.values():
        if transaction.is_committed is False and transaction.handed_at:
            record = next(iter(transaction.handed_at))
            why = "was aborted" if transaction.commit_at is not None else "was never to be committed"
            yield f"{record} was handed to a read_committed consumer, and {transaction.name} {why}"


def precommitted_read(history: TransactionHistory) -> Iterator[str]:
    """Handed to a read_committed consumer before the commit of its transaction was asked for."""
    for transaction in history.transactions.values():
        for record, at in transaction.handed_at.items():
            if transaction.commit_at is not None and at < transaction.commit_at:
                yield (
                    f"{record} was handed to a read_committed consumer in event {at}, and the commit of "
                    f"{transaction.name} was asked for in event {transaction.commit_at}"
                )
                break


def prefix_changed(history: TransactionHistory) -> Iterator[str]:
    """A read_committed consumer went over a record that another one was handed."""
    for partition, view in history.views.items():
        known, records = sorted(set(view.offsets_of.all())), dict[int, list[str]]()
        for consumer, run in view.all_runs():
            for position, _, offset, skipped in run.skips(known, view.log_start):
                records = records or by_offset(view.offsets_of.pairs())
                yield (
                    f"{consumer} went from position {position} to {offset} in {partition}, and another was handed "
                    f"{records[skipped][0]} at {skipped}"
                )


def offset_changed(history: TransactionHistory) -> Iterator[str]:
    """Read_committed consumers were handed two records at one offset, or one at two, or an offset again."""
    for partition, view in history.views.items():
        for record, offsets in view.offsets_of.several.items():
            if record not in view.resent:
                yield f"{record} was handed out at {min(offsets)} and at {max(offsets)} of {partition}"
        for offset, (first, *others) in view.offsets_of.shared().items():
            for record in others:
                yield f"{first} and {record} were both handed out at {offset} of {partition}"
        for consumer, run in view.all_runs():
            for record, offset, position in run.returns():
                yield f"{consumer} was handed {record} at {offset} of {partition}, when its position was {position}"


def copied_twice(history: TransactionHistory) -> Iterator[str]:
    """Read_committed consumers were handed two copies of one record, for one group."""
    for copied, records in _copies(history).items():
        if len(records) > 1:
            yield f"{copied.partition} at {copied.offset} was copied as {records[0]} and as {records[1]}"


def not_copied(history: TransactionHistory) -> Iterator[str]:
    """The group's offset is behind a record, and no reader was handed a copy: an offset without its outputs."""
    handed, attempts = _copies(history), defaultdict[Copied, list[str]](list)
    for record, copied in history.copies.items():
        attempts[copied].append(record)
    for (group, partition), position in history.positions.items():
        view = history.views.get(partition)
        for offset in sorted(_offsets_below(view, position)) if view is not None else ():
            copied = Copied(group, partition, offset)
            if copied not in handed and not any(_may_be_unseen(history, each) for each in attempts[copied]):
                yield f"{group} has committed {position} of {partition}, and the record at {offset} was not copied"


def copied_ahead(history: TransactionHistory) -> Iterator[str]:
    """A copy was handed to a read_committed consumer, and the group's offset is not behind what it is a copy of."""
    for copied, records in _copies(history).items() if history.are_positions_told else ():
        position = history.positions.get((copied.group, copied.partition), 0)
        if copied.offset >= position:
            yield (
                f"{records[0]} is a copy of {copied.partition} at {copied.offset}, and {copied.group} has committed "
                f"{position}"
            )


def hanging_transaction(history: TransactionHistory) -> Iterator[str]:
    """When every transaction's time is over, the last stable offset is the high watermark."""
    for partition, (stable, high_watermark) in history.ends.items():
        if stable < high_watermark:
            yield f"{partition} is stable up to {stable} only, though it ends at {high_watermark}: a transaction hangs"


def zombie_write(history: TransactionHistory) -> Iterator[str]:
    """What a producer did whose transactional id has another one: it wrote a record, or committed."""
    ends = history.fenced_at()
    for transaction in history.transactions.values() if ends else ():
        fenced_at = ends.get(transaction.producer)
        if fenced_at is None:
            continue
        is_late = transaction.commit_at is not None and transaction.commit_at > fenced_at
        if is_late and transaction.records and transaction.is_committed:
            yield f"{transaction.producer} committed {transaction.name}, and has been fenced since event {fenced_at}"
            continue
        for (record, partition), sent_at in zip(transaction.records.items(), transaction.sent_at, strict=True):
            seen = history.seen[partition]
            is_written = record in seen.acknowledged or record in seen.offsets_of
            if sent_at > fenced_at and (is_written or record in transaction.handed_at):
                yield f"{record} of {transaction.producer} was written, though fenced since event {fenced_at}"
                break


def _missing(history: TransactionHistory) -> Iterator[tuple[Transaction, tuple[str, str, Reader]]]:
    """The transactions with a record that a reader had to get and did not: (record, partition, reader) of the first."""
    gone = {record for view in history.views.values() for record in view.gone}
    for transaction in history.transactions.values() if gone else ():
        for record, partition in transaction.records.items():
            if record in gone and record in history.views[partition].gone:
                yield transaction, (record, partition, history.views[partition].gone[record][1])
                break


def _copies(history: TransactionHistory) -> dict[Copied, list[str]]:
    """The copies that read_committed consumers were handed, by what they are copies of."""
    handed: dict[Copied, list[str]] = {}
    for record, copied in history.copies.items():
        if record in history.of_record and record in history.of_record[record].handed_at:
            handed.setdefault(copied, []).append(record)
    return handed


def _offsets_below(view: PartitionHistory, position: int) -> set[int]:
    """Of the records that readers to the end were handed."""
    return {
        offset
        for _, run in view.all_runs()
        if run.is_drained
        for offset in run.offsets
        if view.log_start <= offset < position
    }


def _may_be_unseen(history: TransactionHistory, record: str) -> bool:
    """A copy that may be there, and was deleted on purpose, or nobody looked for it."""
    transaction = history.of_record.get(record)
    if transaction is None or transaction.is_committed is False:
        return False
    view = history.views[transaction.records[record]]
    offset = view.offset_of(record)
    return not view.readers or (view.log_start > 0 and (offset is None or offset < view.log_start))


TRANSACTION_RULES: Final[dict[str, Callable[[TransactionHistory], Iterator[str]]]] = {
    rule.__name__.replace("_", "-"): rule
    for rule in (
        torn_transaction,
        lost_commit,
        aborted_read,
        precommitted_read,
        prefix_changed,
        offset_changed,
        copied_twice,
        not_copied,
        copied_ahead,
        hanging_transaction,
        zombie_write,
    )
}
