"""Ten million records audited on Spark, with violations planted among them: how long, and in how much memory.

The history is written as a test's clients would: sends, acknowledgements and polls of a thousand records each. Memory
is what the driver, its JVM and its Python workers have resident together, looked at four times a second.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from benchmarks import machine
from benchmarks.report import Figure, Run, Target

SUMMARY = "ten million records audited on local[2]"
RECORDS: Final = 10_000_000
PARTITIONS: Final = 6
_BATCH: Final = 1000
_LOOK_S: Final = 0.25
_GIB: Final = 2**30


def run(run: Run) -> list[Figure]:
    """Once; a tenth of the records when quick."""
    from minikafka.spark import start_session
    from minikafka.spark.pipelines.audit import audit

    records = RECORDS // 10 if run.quick else RECORDS
    with tempfile.TemporaryDirectory(prefix="minikafka-audit-") as directory:
        history = Path(directory) / "history.jsonl"
        planted = write_history(history, records)
        size_gib = history.stat().st_size / _GIB
        run.say(f"{records:,} records were sent, acknowledged and read: a history of {size_gib:.2f} GiB")
        began = time.monotonic()
        with Peak() as peak:
            spark = start_session("benchmark", settings={"spark.local.dir": directory})
            try:
                verdict = audit(spark, history)
            finally:
                seconds = time.monotonic() - began
                spark.stop()
    found = {rule: count for rule, count in verdict.violations.items() if count}
    return [
        Figure(f"audit of {records:,} records", seconds, "s", Target("<", 300), f"of {size_gib:.2f} GiB"),
        Figure("memory, driver, JVM and workers together", peak.bytes / _GIB, "GiB", Target("<", 4)),
        Figure("CPU time of them all", peak.cpu_s, "s"),
        Figure("planted violations not found, or others", float(found != planted), "", Target("=", 0), str(found)),
    ]


def write_history(path: Path, records: int) -> dict[str, int]:
    """A history in which three records are lost, one is doubled and one was never sent; answers what must be found."""
    lost, doubled, invented = {records // 4, records // 2, records // 2 + 1}, records // 3, records // 5
    with path.open("w") as file:
        number = 0

        def tell(process: str, kind: str, function: str, value: list[Any]) -> None:
            nonlocal number
            event = {"i": number, "t": number, "p": process, "type": kind, "f": function, "v": value}
            file.write(json.dumps(event, separators=(",", ":")) + "\n")
            number += 1

        partitions = [f"audited-{partition}" for partition in range(PARTITIONS)]
        tell("reader", "ok", "assign", partitions)
        for first in range(0, records, _BATCH):
            batch = [
                (partitions[n % PARTITIONS], f"orders/customer:{n}#{crc32(b'%d' % n):08x}", n // PARTITIONS)
                for n in range(first, min(first + _BATCH, records))
            ]
            tell("producer", "invoke", "send", [(partition, record) for partition, record, _ in batch])
            tell("producer", "ok", "send", batch)
            tell("reader", "ok", "poll", [record for n, record in enumerate(batch, first) if n not in lost])
        end = records // PARTITIONS + 1
        twice = (partitions[doubled % PARTITIONS], f"orders/customer:{doubled}#{crc32(b'%d' % doubled):08x}", end)
        tell("reader", "ok", "poll", [twice, (partitions[invented % PARTITIONS], "nobody#00000000", end + 1)])
        tell("reader", "ok", "drained", partitions)
    return {"lost-write": 3, "poll-skip": 3, "duplicate": 1, "phantom": 1}


class Peak:
    """The most memory that this process and its descendants had together, and the CPU time that they used."""

    def __init__(self) -> None:
        self.bytes = 0
        self.cpu_s = 0.0
        self._cpu_of: dict[int, float] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self.cpu_s = sum(self._cpu_of.values())

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_S):
            seen = {pid: _memory_and_cpu(pid) for pid in machine.descendants(os.getpid())}
            self.bytes = max(self.bytes, sum(memory for memory, _ in seen.values()))
            self._cpu_of.update({pid: cpu_s for pid, (_, cpu_s) in seen.items() if cpu_s})


def _memory_and_cpu(pid: int) -> tuple[int, float]:
    try:
        resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return resident, machine.cpu_seconds(pid)
    except OSError:
        return 0, 0.0
