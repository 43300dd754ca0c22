"""LogSummary against a naive twin: the list of every record's epoch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.model import OffsetAndEpoch
from minikafka.raft import EpochEntry, LogSummary, Snapshot


class Naive:
    """A log as the epochs of its records, from offset 0; records below ``start`` are gone."""

    def __init__(self) -> None:
        self.epochs: list[int] = []
        self.start = 0

    def end_offset_for(self, epoch: int) -> OffsetAndEpoch:
        """Semantics E2, word for word."""
        kept = list(enumerate(self.epochs))[self.start :]
        below = [e for _, e in kept if e <= epoch]
        if not below:
            return OffsetAndEpoch(kept[0][0] if kept else len(self.epochs), epoch)
        after = [offset for offset, e in kept if e > below[-1]]
        return OffsetAndEpoch(after[0] if after else len(self.epochs), below[-1])

    def is_prefix(self, other: list[int]) -> bool:
        return self.epochs[: len(other)] == other


@st.composite
def logs(draw: st.DrawFn) -> tuple[LogSummary, Naive]:
    """A log after random appends, truncations and prefix deletions, both ways."""
    log, naive = LogSummary(), Naive()
    steps = st.tuples(
        st.sampled_from(["append", "append", "truncate", "snapshot"]), st.integers(1, 3), st.integers(0, 2)
    )
    for kind, count, rise in draw(st.lists(steps, max_size=12)):
        end = len(naive.epochs)
        if kind == "append":
            epoch = max(1, log.last_epoch + rise)
            log.append(end + count, epoch)
            naive.epochs += [epoch] * count
        elif kind == "truncate" and end - count >= naive.start:
            log.truncate_to(end - count)
            del naive.epochs[end - count :]
        elif kind == "snapshot" and end - count > naive.start:
            snapshot_id = OffsetAndEpoch(end - count, naive.epochs[end - count - 1])
            log.snapshot = Snapshot(snapshot_id, 10)
            log.advance_log_start(snapshot_id)
            naive.start = end - count
    return log, naive


@given(logs(), st.integers(0, 30))
def test_it_knows_what_the_naive_log_knows(both: tuple[LogSummary, Naive], epoch: int) -> None:
    log, naive = both
    assert log.log_end_offset == len(naive.epochs)
    assert log.last_epoch == (naive.epochs[-1] if naive.epochs else 0)
    if epoch <= log.last_epoch:
        assert log.end_offset_for(epoch) == naive.end_offset_for(epoch)
    for offset in range(naive.start, len(naive.epochs) + 1):
        assert log.epoch_before(offset) == (naive.epochs[offset - 1] if offset else 0)


@given(logs())
def test_recovered_from_disk_it_is_the_same(both: tuple[LogSummary, Naive]) -> None:
    log, _ = both
    snapshots = [] if log.snapshot is None else [log.snapshot]
    again = LogSummary.recovered(log.log_end_offset, log.epochs, log.log_start.offset, snapshots)
    assert (again.end, again.log_start, again.epochs, again.snapshot) == (
        log.end,
        log.log_start,
        log.epochs,
        log.snapshot,
    )
    assert again.flushed


@given(logs(), st.integers(0, 12), st.lists(st.integers(0, 2), max_size=8))
def test_following_the_answers_both_logs_agree(both: tuple[LogSummary, Naive], common: int, rises: list[int]) -> None:
    """A follower whose log left the leader's anywhere comes to a prefix of it, losing nothing they had in common."""
    leader, naive = both
    epochs = _diverged(naive.epochs, common, rises)
    shared = min(common, len(naive.epochs))
    follower = _log_of(epochs)
    while not leader.needs_snapshot(follower.end):
        diverging = leader.divergence(follower.end)
        if diverging is None:
            assert naive.is_prefix(epochs[: follower.log_end_offset])
            assert follower.log_end_offset >= shared
            return
        point = follower.truncation_point(diverging)
        assert min(shared, naive.start) <= point < follower.log_end_offset, "every answer leads on"
        follower.truncate_to(point)
    first_epoch = next(iter(naive.epochs[naive.start :]), leader.last_epoch)  # that of the snapshot, if nothing is left
    assert follower.log_end_offset <= naive.start or follower.last_epoch < first_epoch


def _diverged(leader: list[int], common: int, rises: list[int]) -> list[int]:
    """A log that could exist beside the leader's: equal up to ``common``, then records of epochs that the leader's has
    none of, or of the last common epoch, if the leader's log left that one there. No epoch is above the leader's.
    """
    epochs = leader[:common]
    last = epochs[-1] if epochs else 0
    continued = bool(epochs) and leader[common : common + 1] != [last]
    for rise in rises:
        epoch = max(last + rise, 1)
        while epoch in leader and not (epoch == last and continued):
            epoch += 1
        if not leader or epoch > leader[-1]:
            break
        epochs.append(epoch)
        last, continued = epoch, True
    return epochs


def _log_of(epochs: list[int]) -> LogSummary:
    log = LogSummary()
    for offset, epoch in enumerate(epochs):
        log.append(offset + 1, epoch)
    log.flushed_offset = log.log_end_offset
    return log


def test_the_worked_example() -> None:
    """Semantics E5."""
    leader, follower = _log_of([1] * 4 + [2] * 3), _log_of([1] * 6)
    assert leader.divergence(follower.end) == (4, 1)
    assert follower.truncation_point(OffsetAndEpoch(4, 1)) == 4


def test_a_flush_counts_for_the_log_it_was_of() -> None:
    log = _log_of([1, 1])
    log.append(4, 2)
    assert not log.mark_flushed(OffsetAndEpoch(4, 1))  # records of epoch 1 that were there before
    assert not log.mark_flushed(OffsetAndEpoch(5, 2))
    assert log.flushed_offset == 2
    assert log.mark_flushed(OffsetAndEpoch(4, 2))
    assert log.flushed
    assert not log.mark_flushed(OffsetAndEpoch(3, 2))
    log.truncate_to(3)
    assert log.flushed_offset == 3


def test_at_a_start_of_unknown_epoch_a_snapshot_is_needed() -> None:
    snapshot = Snapshot(OffsetAndEpoch(8, 3), 10)
    log = LogSummary.recovered(9, [EpochEntry(3, 5)], 5, [snapshot])
    assert log.log_start == (5, -1)
    assert log.needs_snapshot(OffsetAndEpoch(5, 2))
    assert log.needs_snapshot(OffsetAndEpoch(7, 2))
    assert not log.needs_snapshot(OffsetAndEpoch(7, 3))


def test_after_a_reset_it_begins_at_the_snapshot() -> None:
    log = _log_of([1, 1, 1])
    log.reset_to(Snapshot(OffsetAndEpoch(9, 4), 10))
    assert (log.end, log.log_start, log.flushed, log.last_epoch) == ((9, 4), (9, 4), True, 4)
    assert log.divergence(log.end) is None
    log.append(10, 5)
    assert log.end_offset_for(4) == (9, 4)


@pytest.mark.parametrize(
    ("end", "epochs", "start", "snapshots", "complaint"),
    [
        (3, [(1, 0)], 4, [], "out of order"),
        (9, [(1, 0)], 4, [], "no snapshot covers"),
        (9, [(1, 0)], 4, [Snapshot(OffsetAndEpoch(3, 1), 1)], "no snapshot covers"),
        (3, [(1, 0)], 0, [Snapshot(OffsetAndEpoch(5, 1), 1)], "beyond the log end"),
        (9, [(2, 0), (1, 4)], 0, [], "out of order"),
        (9, [(1, 4), (2, 4)], 0, [], "out of order"),
        (9, [(1, 2)], 0, [], "not known"),
        (9, [], 0, [], "not known"),
    ],
)
def test_contradictions_on_disk_are_found(
    end: int, epochs: list[tuple[int, int]], start: int, snapshots: list[Snapshot], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        LogSummary.recovered(end, [EpochEntry(*entry) for entry in epochs], start, snapshots)


def test_an_epoch_without_records_is_forgotten() -> None:
    assert LogSummary.recovered(3, [EpochEntry(1, 0), EpochEntry(2, 3)]).end == (3, 1)
