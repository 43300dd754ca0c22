"""What a record batch costs the broker and a client: ``python benchmarks/records.py``. Microseconds, best of five.

aiokafka's C builder and reader are measured beside ours where aiokafka is installed.
"""

from __future__ import annotations

import importlib.util
import random
import subprocess
import sys
import timeit
from collections.abc import Callable
from functools import partial

from minikafka.model import Compression
from minikafka.records.batch import assign_offsets, crc_is_valid, iter_batches, parse_header
from minikafka.records.build import build_batch
from minikafka.records.compression import compress, decompress
from minikafka.records.read import iter_records
from minikafka.records.record import Record
from minikafka.records.validate import BatchLimits, validate_produce

NOW_MS = 1_700_000_000_000


def microseconds(work: Callable[[], object]) -> float:
    """The time of one call."""
    timer = timeit.Timer(work)
    count = max(1, timer.autorange()[0] // 5)
    return min(timer.repeat(5, count)) / count * 1e6


def report(name: str, work: Callable[[], object], records: int = 1) -> None:
    """Print one line: per call, and per record where there are several."""
    taken = microseconds(work)
    print(f"  {name:<34}{taken:>11.2f} us" + (f"{taken / records:>9.2f} us/record" if records > 1 else ""))


def sample(count: int) -> list[Record]:
    """Records of a 6-byte key and a 100-byte value that compresses about 3 to 1."""
    rng = random.Random(count)
    return [
        Record(0, NOW_MS + index, b"%06d" % index, rng.randbytes(30).hex().encode() + b"." * 40)
        for index in range(count)
    ]


def broker_path(batch: bytearray) -> None:
    """What every produced batch goes through."""
    view = memoryview(batch)
    header, limits = parse_header(batch), BatchLimits()
    report("parse_header", lambda: parse_header(view))
    report("crc_is_valid", lambda: crc_is_valid(view, 0, header))
    report("validate_produce", lambda: validate_produce(view, limits, 9, NOW_MS))
    report("assign_offsets", lambda: assign_offsets(view, 0, 7, 1))
    report("iter_batches", lambda: list(iter_batches(view)))


def client_path(records: list[Record], batch: bytearray) -> None:
    """What who looks inside pays."""
    count = len(records)
    report("build_batch", lambda: build_batch(records), count)
    report("iter_records", lambda: list(iter_records(batch)), count)
    if importlib.util.find_spec("aiokafka") is None:
        return
    from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

    def build() -> bytearray:
        builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 30)
        for index, record in enumerate(records):
            builder.append(index, record.timestamp, record.key, record.value, [])
        built: bytearray = builder.build()
        return built

    def read() -> list[Record]:
        return [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in DefaultRecordBatch(data)]

    data = bytes(batch)
    report("aiokafka's builder (C)", build, count)
    report("aiokafka's reader (C) to Record", read, count)


def codecs(body: bytes) -> None:
    """Speed and ratio of each codec."""
    for codec in Compression:
        packed = compress(codec, body)
        packing = microseconds(partial(compress, codec, body))
        unpacking = microseconds(partial(decompress, codec, packed, 1 << 27))
        print(
            f"  {codec.name.lower():<8} {len(body) / len(packed):>6.2f} : 1"
            f"  compress {len(body) / packing:>8.0f} MB/s  decompress {len(body) / unpacking:>8.0f} MB/s"
        )


def import_cost(module: str, after: str) -> None:
    """Import time and resident memory that ``module`` adds to ``after``, in a process of its own, the best of five."""
    program = (
        f"import {after}, time; resident = lambda: int(open('/proc/self/statm').read().split()[1]) * 4;"
        f"before = resident(); start = time.perf_counter(); import {module};"
        "print((time.perf_counter() - start) * 1e3, resident() - before)"
    )
    runs = [subprocess.run([sys.executable, "-c", program], capture_output=True, text=True) for _ in range(5)]
    taken, memory = min(tuple(map(float, run.stdout.split())) for run in runs)
    print(f"  import {module:<28}{taken:>6.1f} ms {memory:>6.0f} KB more than {after}")


def main() -> None:
    """Run everything."""
    for count in (1, 10, 1_000):
        records = sample(count)
        batch = build_batch(records)
        print(f"{count} record(s), {len(batch):,} bytes")
        broker_path(batch)
        client_path(records, batch)
    print("codecs, a body of 100 kB")
    codecs(b"".join(record.value or b"" for record in sample(1_000)))
    print("imports")
    import_cost("crc32c", after="asyncio")
    import_cost("minikafka.records.control", after="asyncio, crc32c")
    import_cost("cramjam", after="asyncio")
    if importlib.util.find_spec("aiokafka") is not None:
        import_cost("aiokafka.record", after="asyncio, crc32c")


if __name__ == "__main__":
    main()
