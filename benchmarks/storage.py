"""What the log costs beside the disk: ``python benchmarks/storage.py [DIRECTORY]``. Microseconds, best of five.

"no write" replaces the file of the active segment by one that takes bytes and forgets them, so the difference is the
system call.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
import timeit
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from minikafka.model import TopicPartition
from minikafka.records.batch import Buffer, parse_header
from minikafka.records.build import build_batch
from minikafka.records.record import Record
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import OsDisk, OsFile
from minikafka.storage.last_stop import LastStop
from minikafka.storage.log import Log
from minikafka.storage.log_store import LogStore

NOW_MS = 1_700_000_000_000
PARTITIONS = 100

T = TypeVar("T")


class NoFile(OsFile):
    """A file that keeps nothing of what is appended."""

    __slots__ = ()

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Take the bytes."""
        return sum(map(len, buffers))


def microseconds(work: Callable[[], object]) -> float:
    """The time of one call."""
    timer = timeit.Timer(work)
    count = max(1, timer.autorange()[0] // 5)
    return min(timer.repeat(5, count)) / count * 1e6


def report(name: str, work: Callable[[], object], size: int = 0) -> None:
    """Print one line: per call, and the rate where a call moves ``size`` bytes."""
    taken = microseconds(work)
    print(f"  {name:<44}{taken:>11.2f} us" + (f"{size / taken / 1e3:>9.2f} GB/s" if size else ""))


def new_log(root: Path, name: str, **settings: Any) -> Log:
    """An empty log."""
    return Log.open(
        OsDisk(),
        str(root / f"{name}-0"),
        TopicPartition(name, 0),
        LogConfig(**settings),
        last_stop=LastStop(is_clean=True),
    )


def one_record(producer_id: int = -1) -> bytearray:
    """A batch of one 100-byte record."""
    sequence = 0 if producer_id >= 0 else -1
    return build_batch(
        [Record(0, NOW_MS, b"key", b"v" * 100)],
        producer_id=producer_id,
        producer_epoch=min(sequence, 0),
        base_sequence=sequence,
    )


def appends(root: Path) -> None:
    """A leader's and a follower's append."""
    print("append of a one-record batch")
    view = memoryview(one_record())
    header = parse_header(view)

    def stage_and_commit(log: Log) -> None:
        log.stage(view, header, leader_epoch=1, wall_ms=NOW_MS)
        log.commit()

    log = new_log(root, "appended")
    report("stage + commit", lambda: stage_and_commit(log))
    bare = new_log(root, "unwritten")
    file = bare.segments.active.file
    bare.segments.active._file = NoFile(-1)
    report("stage + commit, no write", lambda: stage_and_commit(bare))

    def stage_ten() -> None:
        for _ in range(10):
            bare.stage(view, header, leader_epoch=1, wall_ms=NOW_MS)
        bare.commit()

    report("10 stages + commit, no write", stage_ten)
    idempotent(bare)
    bare.segments.active._file = file
    follow(new_log(root, "followed"))


def idempotent(log: Log) -> None:
    """The same with the producer's state looked after."""
    view = memoryview(one_record(producer_id=9))
    header = parse_header(view)
    sequence = 0

    def work() -> None:
        nonlocal sequence
        log.stage(view, header._replace(base_sequence=sequence), leader_epoch=1, wall_ms=NOW_MS)
        log.commit()
        sequence += 1

    report("stage + commit, no write, idempotent", work)


def follow(log: Log) -> None:
    """A MiB of 16 KiB batches, as a fetch brings them."""
    chunk = bytearray()
    for _ in range(64):
        chunk += build_batch([Record(0, NOW_MS, b"key", b"v" * 16_300)], leader_epoch=1)
    view = memoryview(chunk)
    size = len(chunk) // 64

    def work() -> None:
        for at in range(64):
            offset = log.log_end_offset + at
            view[at * size : at * size + 8] = offset.to_bytes(8, "big")
        log.append_as_follower(view, wall_ms=NOW_MS)
        if log.size_in_bytes > 2**28:
            log.truncate_fully_and_start_at(0)

    report("append_as_follower, 64 batches of 16 KiB", work, len(chunk))


def reads(root: Path) -> None:
    """Where a slice begins and ends; its bytes are not touched."""
    print("read (finding a slice)")
    log = new_log(root, "read", segment_bytes=8 * 1024 * 1024)
    view = memoryview(one_record())
    header = parse_header(view)
    for _ in range(200_000):
        log.stage(view, header, leader_epoch=1, wall_ms=NOW_MS)
        log.commit()
    end = log.log_end_offset
    report("at the tail, one batch", lambda: log.read(end - 1, 1 << 20))
    report("at the tail, 500 batches, up to a limit", lambda: log.read(end - 700, 1 << 20, max_offset=end - 200))
    report("in the active segment, cold", lambda: log.read(end - 20_000, 1 << 20))
    report("in a closed segment", lambda: log.read(1234, 1 << 20))
    report("nothing there", lambda: log.read(end, 1 << 20))
    report("bytes_between at the tail", lambda: log.bytes_between(end - 5, end))
    report("offset for a timestamp", lambda: log.prepare_timestamp_lookup(NOW_MS).run())
    log.flush()


def starts(root: Path) -> None:
    """Opening and closing many logs."""
    print(f"{PARTITIONS} logs of 1,000 batches")
    paths = [str(root / "store")]

    def open_store() -> LogStore:
        return LogStore.open(OsDisk(), paths, node_id=1, cluster_id="bench", new_uuid=uuid4)

    store = open_store()
    for at in range(PARTITIONS):
        log = store.create(TopicPartition("topic", at), uuid4(), LogConfig())
        view = memoryview(one_record())
        for _ in range(1000):
            log.stage(view, parse_header(view), leader_epoch=1, wall_ms=NOW_MS)
            log.commit()
    for log in store:
        store.note_rows(log, 1)
    timed("write checkpoints", store.prepare_checkpoints().run)
    timed("close", lambda: store.close({}))
    store = timed("open after an orderly stop", open_store)
    store.abandon()
    store = timed("open after a crash (verify everything)", open_store)
    timed("close", lambda: store.close({}))


def timed(name: str, work: Callable[[], T]) -> T:
    """Run once and print how long it took."""
    began = time.perf_counter()
    result = work()
    print(f"  {name:<44}{(time.perf_counter() - began) * 1000:>11.1f} ms")
    return result


def main() -> None:
    """Measure in the directory given, or in a temporary one."""
    root = Path(tempfile.mkdtemp(prefix="minikafka-bench-", dir=sys.argv[1] if len(sys.argv) > 1 else None))
    try:
        appends(root)
        reads(root)
        starts(root)
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
