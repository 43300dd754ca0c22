"""Histories of a million events judged in memory by ``minikafka chaos check``, with anomalies planted among them.

They are written as clients of a chaos run would. One of records: a send and an acknowledgement for each, two consumers
that poll four records at a time. One of transactions: each has three records, every tenth is aborted, a consumer sees
all and a read_committed one what is committed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Final
from zlib import crc32

from benchmarks.report import Figure, Run, Target

SUMMARY = "a million events judged by chaos check, of records and of transactions"
RECORDS: Final = 400_000
TRANSACTIONS: Final = 147_100
PARTITIONS: Final = 12
POLLED: Final = 4
_PENDING: Final = 50
_OF_TRANSACTION: Final = 3  # records
_ABORTED: Final = 10  # the first of so many transactions


def run(run: Run) -> list[Figure]:
    """Once each; a tenth of the events when quick."""
    return [
        *_judged(run, "records", write_history, RECORDS),
        *_judged(run, "transactions", write_transactions, TRANSACTIONS),
    ]


def _judged(run: Run, kind: str, write: Callable[[Path, int], tuple[int, dict[str, int]]], count: int) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="minikafka-check-") as directory:
        history = Path(directory) / "history.jsonl"
        events, planted = write(history, count // 10 if run.quick else count)
        run.say(f"{events:,} events of {kind}, {history.stat().st_size >> 20} MiB")
        seconds, cpu_s, peak_gib, verdict = check(history)
    violations = verdict["records"]["violations"] | verdict.get("transactions", {}).get("violations", {})
    found = {rule: count for rule, count in violations.items() if count}
    return [
        Figure(f"check of {events:,} events of {kind}: CPU time", cpu_s, "s", Target("<", 20), "of one thread"),
        Figure("wall time of it", seconds, "s"),
        Figure("memory", peak_gib, "GiB", Target("<", 2)),
        Figure("planted anomalies not found, or others", float(found != planted), "", Target("=", 0), str(found)),
    ]


def check(history: Path) -> tuple[float, float, float, dict[str, Any]]:
    """Seconds, CPU seconds, GiB, and what it printed."""
    began = time.monotonic()
    with tempfile.TemporaryFile() as printed:
        command = (sys.executable, "-m", "minikafka", "chaos", "check", str(history), "--json")
        process = subprocess.Popen(command, stdout=printed)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - began
        printed.seek(0)
        verdict = json.load(printed)
    return seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20, verdict


class Teller:
    """Writes events, numbered, ten in a millisecond."""

    def __init__(self, file: IO[str]) -> None:
        self.number = 0
        self._file = file

    def __call__(self, process: str, kind: str, function: str, value: list[Any]) -> None:
        """One more."""
        event = {"i": self.number, "t": self.number // 10, "p": process, "type": kind, "f": function, "v": value}
        self._file.write(json.dumps(event, separators=(",", ":")) + "\n")
        self.number += 1


def write_history(path: Path, records: int) -> tuple[int, dict[str, int]]:
    """A history in which the last reader misses three records and gets one twice; events, and what must be found."""
    lost, doubled = {records // 4, records // 2, records // 2 + 1}, records // 3
    partitions = [f"chaos-{partition}" for partition in range(PARTITIONS)]
    with path.open("w") as file:
        tell = Teller(file)

        def item(n: int) -> list[Any]:
            return [partitions[n % PARTITIONS], f"producer-1/{n}#{crc32(b'%d' % n):08x}", n // PARTITIONS]

        for consumer in ("follower", "reader"):
            tell(consumer, "ok", "assign", partitions)
        for n in range(records + _PENDING):
            if n < records:
                tell(f"producer-{n % PARTITIONS}", "invoke", "send", [item(n)[:2]])
            if n >= _PENDING:
                tell(f"producer-{(n - _PENDING) % PARTITIONS}", "ok", "send", [item(n - _PENDING)])
            if n >= _PENDING and (n - _PENDING) % POLLED == POLLED - 1:
                tell("follower", "ok", "poll", [item(n - _PENDING - back) for back in range(POLLED)][::-1])
        for first in range(0, records, POLLED):
            tell("reader", "ok", "poll", [item(n) for n in range(first, first + POLLED) if n not in lost])
        tell("reader", "ok", "poll", [[*item(doubled)[:2], records]])
        tell("reader", "ok", "drained", partitions)
    return tell.number, {"lost-write": len(lost), "duplicate": 1, "poll-skip": len(lost)}


def write_transactions(path: Path, count: int) -> tuple[int, dict[str, int]]:
    """A history in which the read_committed reader misses a record, and gets one of an aborted transaction."""
    partitions = [f"chaos-{partition}" for partition in range(PARTITIONS)]
    ends = dict.fromkeys(partitions, 0)
    torn, seen = count // 2 + 1, count // 2 // _ABORTED * _ABORTED
    with path.open("w") as file:
        tell = Teller(file)
        tell("follower", "ok", "assign", partitions)
        tell("reader", "ok", "assign_committed", partitions)
        for n in range(count):
            producer, is_aborted = f"producer-{n % 4}", n % _ABORTED == 0
            items: list[list[Any]] = []
            for at in range(_OF_TRANSACTION):
                partition = partitions[(n + at) % PARTITIONS]
                items.append([partition, f"{producer}/{n}.{at}#{crc32(b'%d' % n):08x}", ends[partition]])
                ends[partition] += 2  # a marker follows each
            tell(producer, "invoke", "begin", [f"T{n}"])
            tell(producer, "invoke", "send", [item[:2] for item in items])
            if is_aborted:
                tell(producer, "fail", "commit", [f"T{n}"])
                tell(producer, "fail", "send", [item[:2] for item in items])
            else:
                tell(producer, "invoke", "commit", [f"T{n}"])
                tell(producer, "ok", "commit", [f"T{n}"])
                tell(producer, "ok", "send", items)
            tell("follower", "ok", "poll", items)
            if not is_aborted or n == seen:
                tell("reader", "ok", "poll_committed", items[1:] if n == torn else items)
        tell("follower", "ok", "drained", partitions)
        tell("reader", "ok", "drained_committed", partitions)
    return tell.number, {"torn-transaction": 1, "aborted-read": 1}
