"""The rules: each looks at one partition and yields a sentence for every violation. ``checker`` has their theory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final

from minikafka.ledger.offsets import UNKNOWN, by_offset
from minikafka.ledger.partition import PartitionHistory, is_ascending
from minikafka.ledger.sentences import SENTENCES, UNKNOWN_PLACE


def lost_write(history: PartitionHistory) -> Iterator[str]:
    """Acknowledged, and missing for a reader that got later records."""
    for record, (offset, reader) in history.gone.items():
        if record in history.acknowledged and (offset is None or offset < reader.highest):
            place = UNKNOWN_PLACE if offset is None else offset
            yield SENTENCES["lost-write"] % (record, place, reader.name, reader.highest)


def unseen(history: PartitionHistory) -> Iterator[str]:
    """Acknowledged, and beyond the last record of a reader."""
    for record, (offset, reader) in history.gone.items():
        if record in history.acknowledged and offset is not None and offset >= reader.highest:
            yield SENTENCES["unseen"] % (record, offset, reader.name, reader.highest)


def dirty_read(history: PartitionHistory) -> Iterator[str]:
    """Of unknown outcome, read by a consumer, and missing for a reader."""
    for record, (offset, reader) in history.gone.items():
        if record not in history.acknowledged:
            yield SENTENCES["dirty-read"] % (record, offset, reader.name, reader.highest)


def duplicate(history: PartitionHistory) -> Iterator[str]:
    """One record at two offsets, though its producer sent it once."""
    for record in history.records_at_several():
        if record not in history.resent:
            seen = history.offsets_at(record)
            yield SENTENCES["duplicate"] % (record, len(seen), min(seen), max(seen))


def nonmonotonic_send(history: PartitionHistory) -> Iterator[str]:
    """A producer's later record at a lower offset than an earlier one."""
    for process, records in history.sent.items():
        offsets = list(map(history.acknowledged.get, records))
        if None not in offsets and UNKNOWN not in offsets and is_ascending(offsets):  # type: ignore[arg-type]
            continue
        highest, highest_record = -1, ""
        for record in records:
            offset = history.offset_of(record)
            if offset is None:
                continue
            if offset < highest:
                yield SENTENCES["nonmonotonic-send"] % (process, record, highest_record, offset, highest)
            else:
                highest, highest_record = offset, record


def nonmonotonic_poll(history: PartitionHistory) -> Iterator[str]:
    """A consumer got an offset below its position."""
    for consumer, run in history.all_runs():
        for back in run.returns():
            yield SENTENCES["nonmonotonic-poll"] % (consumer, *back)


def poll_skip(history: PartitionHistory) -> Iterator[str]:
    """An assigned consumer missed a record between its position and the next record that it got."""
    known = history.known_offsets
    for consumer, run in history.all_runs():
        for skip in run.skips(known, history.log_start):
            yield SENTENCES["poll-skip"] % (consumer, *skip)


def phantom(history: PartitionHistory) -> Iterator[str]:
    """Read or acknowledged, but never sent."""
    for record in history.records_not_in(history.sent_ids):
        offset = history.offset_of(record)
        yield SENTENCES["phantom"] % (record, UNKNOWN_PLACE if offset is None else offset)


def aborted_read(history: PartitionHistory) -> Iterator[str]:
    """Read, although the producer was told that it failed."""
    for record in history.failed:
        if record in history.offsets_of:
            yield SENTENCES["aborted-read"] % (record, history.offsets_of[record])


def inconsistent_offsets(history: PartitionHistory) -> Iterator[str]:
    """A record read at an offset at which another was acknowledged, or else read."""
    acknowledged, unconfirmed = history.acknowledged, history.unconfirmed
    if history.offsets_of.several:
        unconfirmed = [pair for pair in history.offsets_of.pairs() if acknowledged.get(pair[0]) != pair[1]]
    read_at = by_offset(unconfirmed)
    acknowledged_at = by_offset(pair for pair in acknowledged.pairs() if pair[1] in read_at) if read_at else {}
    for offset, records in read_at.items():
        here = acknowledged_at.get(offset, records[:1])
        for record in records:
            if record not in here:
                yield SENTENCES["inconsistent-offsets"] % (offset, here[0], record)


def reused_offset(history: PartitionHistory) -> Iterator[str]:
    """Two records acknowledged at one offset."""
    for offset, (first, *others) in history.acknowledged.shared().items():
        for other in others:
            yield SENTENCES["reused-offset"] % (first, other, offset)


def nonmonotonic_end_offset(history: PartitionHistory) -> Iterator[str]:
    """One process saw the end of the partition move back."""
    for process, offsets in history.end_offsets.items():
        for before, after in pairwise(offsets):
            if after < before:
                yield SENTENCES["nonmonotonic-end-offset"] % (process, before, after)


RULES: Final[dict[str, Callable[[PartitionHistory], Iterator[str]]]] = {
    rule.__name__.replace("_", "-"): rule
    for rule in (
        lost_write,
        unseen,
        dirty_read,
        duplicate,
        nonmonotonic_send,
        nonmonotonic_poll,
        poll_skip,
        phantom,
        aborted_read,
        inconsistent_offsets,
        reused_offset,
        nonmonotonic_end_offset,
    )
}
assert RULES.keys() == SENTENCES.keys()
