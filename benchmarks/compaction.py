"""How fast the cleaner goes over a log, how much memory its map takes, and what an event loop beside it feels.

Throughput is bytes of dirty log per second of CPU of the cleaner's thread: syncs and other users of this machine do not
count. A first half is cleaned, then a second half of the same size is written with the same keys, and that pass is
measured: it maps the second half, and rewrites both.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from benchmarks.report import Figure, Run, Target, percentile
from minikafka.groups.records import OffsetCommitKey, OffsetCommitRecord, OffsetCommitValue
from minikafka.model import TopicPartition
from minikafka.records.batch import HEADER_SIZE, parse_header
from minikafka.records.build import build_batch
from minikafka.records.record import Record
from minikafka.storage import compaction
from minikafka.storage.compaction import CompactionJob
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import OsDisk
from minikafka.storage.key_map import MAX_KEYS, KeyMap
from minikafka.storage.log import Log

SUMMARY = "the log cleaner: throughput, memory of its map, and turns of an event loop beside it"
CONFIG: Final = LogConfig(cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0, segment_bytes=16 << 20)
NOW_MS: Final = 1_700_000_000_000
LOG_BYTES: Final = 32 << 20
COMMITS_PER_S: Final = 5_000


class Shape(NamedTuple):
    """Batches of so many records with values of so many bytes; ``keys``: how many there are for each of 100 records."""

    name: str
    records: int
    value_bytes: int
    keys: int
    least_mb_per_s: float | None


SHAPES: Final = (
    Shape("1 KiB batches of 1 record, 20 keys for 100 records", 1, 920, 20, 50),
    Shape("1 KiB batches of 9 records, 1 key for 100 records", 9, 72, 1, 50),
    Shape("1 KiB batches of 9 records, 20 keys for 100 records", 9, 72, 20, None),
    Shape("one-record batches of 150 bytes, 20 keys for 100 records", 1, 50, 20, 5),
)


def run(run: Run) -> list[Figure]:
    """Throughput of each shape, commits of offsets, memory, and the loop."""
    figures = []
    size = LOG_BYTES // (8 if run.quick else 1)
    for shape in SHAPES:
        rate = max(_rate(shape, size, seed) for seed in range(run.times(3)))
        run.say(f"{shape.name}: {rate:.0f} MB/s")
        target = None if shape.least_mb_per_s is None else Target(">=", shape.least_mb_per_s)
        figures.append(Figure(f"dirty log in {shape.name}", rate, "MB/s", target))
    share = min(_share_of_commits(seed) for seed in range(run.times(3)))
    figures.append(Figure("CPU of the cleaner beside 5,000 commits/s of offsets", share * 100, "%", Target("<", 50)))
    figures.append(Figure(f"memory of the map with {MAX_KEYS:,} keys", _map_mib(), "MiB", Target("<", 64)))
    lateness = asyncio.run(_late_ms(size))
    return figures + [
        Figure(f"a timer of 1 ms {name} is late, {share:.0%}", percentile(late_ms, share), "ms")
        for name, late_ms in lateness.items()
        for share in (0.5, 0.9)
    ]


def _rate(shape: Shape, size: int, seed: int) -> float:
    with tempfile.TemporaryDirectory() as directory:
        log, cleaned_bytes = _half_dirty_log(directory, shape, size, seed)
        dirty = log.size_in_bytes - cleaned_bytes
        return dirty / _clean(log) / 1e6


def _half_dirty_log(directory: str, shape: Shape, size: int, seed: int) -> tuple[Log, int]:
    """A log whose first half is cleaned, and how large that is now."""
    rng = random.Random(seed)
    log = Log.open(OsDisk(), f"{directory}/t-0", TopicPartition("t", 0), CONFIG)
    batch_bytes = HEADER_SIZE + shape.records * (shape.value_bytes + 26)
    keys = size // batch_bytes * shape.records * shape.keys // 100
    _fill(log, shape, size // 2, rng, keys)
    _clean(log)
    cleaned_bytes = log.size_in_bytes
    _fill(log, shape, size // 2, rng, keys)
    return log, cleaned_bytes


def _fill(log: Log, shape: Shape, size: int, rng: random.Random, keys: int) -> None:
    written = 0
    while written < size:
        records = [
            Record(at, NOW_MS, b"key-%012d" % rng.randrange(keys), rng.randbytes(shape.value_bytes))
            for at in range(shape.records)
        ]
        written += _put(log, build_batch(records))
    log.roll()
    log.flush()


def _put(log: Log, batch: bytearray) -> int:
    log.stage(memoryview(batch), parse_header(batch), leader_epoch=0, wall_ms=NOW_MS)
    log.commit()
    return len(batch)


def _clean(log: Log) -> float:
    """One pass; seconds of CPU of this thread."""
    job = log.plan_compaction(log.log_end_offset, NOW_MS)
    assert job is not None
    began = time.thread_time()
    while not job.step():
        pass
    took = time.thread_time() - began
    assert log.prepare_swap(job)
    job.publish()
    for _ in log.completing_compaction(job):
        pass
    return took


def _share_of_commits(seed: int) -> float:
    """Of one CPU, while offsets are committed all the time and every 30 seconds of that are cleaned at once."""
    rng, seconds = random.Random(seed), 30
    with tempfile.TemporaryDirectory() as directory:
        log = Log.open(OsDisk(), f"{directory}/t-0", TopicPartition("t", 0), CONFIG)
        for _half in range(2):
            for _commit in range(COMMITS_PER_S * seconds):
                key = OffsetCommitKey(group=f"group-{rng.randrange(1000)}", topic="orders", partition=rng.randrange(20))
                value = OffsetCommitValue(offset=rng.randrange(1 << 40), commit_timestamp=NOW_MS)
                record = OffsetCommitRecord(key, value).encode()
                _put(log, build_batch([Record(0, NOW_MS, record.key, record.value)]))
            log.roll()
            log.flush()
            took = _clean(log)
    return took / seconds


def _map_mib() -> float:
    tracemalloc.start()
    keys = KeyMap(0)
    for batch in _batches_of_new_keys():
        keys.add(parse_header(batch), batch)
        if keys.full_at is not None:
            break
    keys.close()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / (1 << 20)


def _batches_of_new_keys() -> Iterator[bytearray]:
    offset = 0
    while True:
        records = [Record(at, NOW_MS, b"%031d" % (offset + at), b"v") for at in range(100)]
        yield build_batch(records, base_offset=offset)
        offset += len(records)


async def _late_ms(size: int) -> dict[str, list[float]]:
    """How late a timer of a millisecond fires: alone, beside the cleaner as it is, and if it did all in one step."""
    loop = asyncio.get_running_loop()
    until = loop.time() + 2
    late = {"alone": await _lateness(lambda: loop.time() > until)}
    for name, step_work in (("beside the cleaner", compaction.STEP_WORK), ("beside one that never lets go", 1 << 40)):
        with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor(1) as pool:
            log, _ = _half_dirty_log(directory, SHAPES[3], size, 1)
            job = log.plan_compaction(log.log_end_offset, NOW_MS)
            assert job is not None
            cleaning = loop.create_task(_clean_beside(job, step_work, pool))
            late[name] = await _lateness(cleaning.done)
    return late


async def _clean_beside(job: CompactionJob, step_work: int, pool: ThreadPoolExecutor) -> None:
    loop, usual = asyncio.get_running_loop(), compaction.STEP_WORK
    compaction.STEP_WORK = step_work  # type: ignore[misc]
    try:
        while not await loop.run_in_executor(pool, job.step):
            pass
    finally:
        compaction.STEP_WORK = usual  # type: ignore[misc]


async def _lateness(is_over: Callable[[], bool]) -> list[float]:
    """In ms, of one timer after the other."""
    loop, late = asyncio.get_running_loop(), []
    while not is_over():
        due = loop.time() + 0.001
        await asyncio.sleep(0.001)
        late.append((loop.time() - due) * 1000)
    return late
