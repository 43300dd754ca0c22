"""Jobs of logs that a node runs in threads and in portions, here and now."""

from __future__ import annotations

from minikafka.storage.compaction import CompactionJob
from minikafka.storage.log import Log
from minikafka.storage.log_store import LogStore
from minikafka.storage.moving import ReplicaMove
from minikafka.storage.timestamps import TimestampedOffset


def compact(log: Log, high_watermark: int, wall_ms: int) -> bool:
    """A whole pass of the cleaner; False when none is due."""
    job = log.plan_compaction(high_watermark, wall_ms)
    if job is None:
        return False
    while not job.step():
        pass
    assert log.prepare_swap(job)
    job.publish()
    assert complete_compaction(log, job)
    return True


def complete_compaction(log: Log, job: CompactionJob) -> bool:
    """All portions of the swap; False when it is no longer possible."""
    steps = log.completing_compaction(job)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return bool(end.value)


def delete_old_segments(log: Log, high_watermark: int, wall_ms: int) -> int:
    """Apply retention; the number of deleted segments."""
    total = 0
    while (job := log.prepare_deletion(high_watermark, wall_ms)) is not None:
        job.run()
        count = log.complete_deletion(job)
        total += count
        if not count:
            break
    return total


def offset_for_timestamp(log: Log, timestamp: int) -> TimestampedOffset | None:
    """The first record stamped at or after ``timestamp`` (ms)."""
    job = log.prepare_timestamp_lookup(timestamp)
    job.run()
    return log.complete_read(job)


def offset_of_max_timestamp(log: Log) -> TimestampedOffset | None:
    """The first record that has the largest timestamp of the log."""
    job = log.prepare_max_timestamp_lookup()
    job.run()
    return log.complete_read(job)


def reconcile(move: ReplicaMove) -> None:
    """Cut the copy to the records that the log still has."""
    while (job := move.prepare_cut()) is not None:
        job.run()
        move.future.complete_cut(job)


def seal(move: ReplicaMove) -> None:
    """Make the copy, which has caught up, durable."""
    job = move.prepare_seal()
    job.run()
    move.future.complete_flush(job)


def complete_move(store: LogStore, move: ReplicaMove, high_watermark: int) -> Log:
    """Let the copy, which has caught up, take the log's place."""
    seal(move)
    arrival = store.moves.arrive(move, high_watermark)
    arrival.make_departure_durable()
    if arrival.enter():
        arrival.make_entry_durable()
        arrival.complete()
    return arrival.log
