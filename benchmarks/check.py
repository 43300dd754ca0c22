"""A history of a million events judged in memory by ``minikafka chaos check``, with anomalies planted among them.

The history is written as clients of a chaos run would: a send and an acknowledgement for each record, two consumers
that poll four records at a time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from benchmarks.report import Figure, Run, Target

SUMMARY = "a million events judged by chaos check"
RECORDS: Final = 400_000
PARTITIONS: Final = 12
POLLED: Final = 4
_PENDING: Final = 50


def run(run: Run) -> list[Figure]:
    """Once; a tenth of the events when quick."""
    with tempfile.TemporaryDirectory(prefix="minikafka-check-") as directory:
        history = Path(directory) / "history.jsonl"
        events, planted = write_history(history, RECORDS // 10 if run.quick else RECORDS)
        run.say(f"{events:,} events, {history.stat().st_size >> 20} MiB")
        seconds, cpu_s, peak_gib, verdict = check(history)
    found = {rule: count for rule, count in verdict["records"]["violations"].items() if count}
    return [
        Figure(f"check of {events:,} events: CPU time", cpu_s, "s", Target("<", 20), "of one thread"),
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


def write_history(path: Path, records: int) -> tuple[int, dict[str, int]]:
    """A history in which the last reader misses three records and gets one twice; events, and what must be found."""
    lost, doubled = {records // 4, records // 2, records // 2 + 1}, records // 3
    partitions = [f"chaos-{partition}" for partition in range(PARTITIONS)]
    number = 0
    with path.open("w") as file:

        def tell(process: str, kind: str, function: str, value: list[Any]) -> None:
            nonlocal number
            event = {"i": number, "t": number // 10, "p": process, "type": kind, "f": function, "v": value}
            file.write(json.dumps(event, separators=(",", ":")) + "\n")
            number += 1

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
    return number, {"lost-write": len(lost), "duplicate": 1, "poll-skip": len(lost)}
