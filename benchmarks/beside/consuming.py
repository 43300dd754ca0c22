"""Records read from the beginning by librdkafka: from memory and from the disk, by one consumer and by ten."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.beside.batches import LARGE
from benchmarks.beside.generator import Load, write
from benchmarks.beside.sides import PARTITIONS, Side
from benchmarks.beside.turns import READING_S, Turn, both_sides, compare, was_read
from benchmarks.report import Figure, Run, Target

SUMMARY = "records read hot and cold, by one consumer and ten, beside Apache Kafka"
LOADS: Final = {"100 B": Load(1_000_000, 100, properties=LARGE), "1 KiB": Load(200_000, 1024, properties=LARGE)}
HOT: Final = Target(">=", 1.2)


def run(run: Run) -> list[Figure]:
    """By turns."""
    figures: list[Figure] = []
    with both_sides(run) as sides, ExitStack() as stack:
        for name, load in LOADS.items() if sides else ():
            topics = {side.name: stack.enter_context(side.topic(3)) for side in sides}
            for side in sides:
                write(side.connecting, topics[side.name], PARTITIONS, load)

            for what, consumers, before, limit in (
                ("hot, one consumer", 1, _leave, HOT),
                ("hot, ten consumers", 10, _leave, HOT),
                ("cold, one consumer", 1, _forget, None),
            ):
                turn = partial(_turn, topics, load.records, consumers, before)
                found = compare(run, f"{name}, {what}", sides, turn)
                figures += [
                    found.figure(f"read, {name}, {what}", "read_per_s", limit),
                    found.figure("  CPU of all nodes for a record", "read_cpu_us"),
                ]
    return figures


def _turn(topics: dict[str, str], records: int, consumers: int, before: Callable[[Side], None], side: Side) -> Turn:
    before(side)
    again_s = 0.0 if before is _forget else READING_S
    return was_read(side, topics[side.name], records, consumers, again_s=again_s)


def _leave(_side: Side) -> None:
    """Its files are in memory."""


def _forget(side: Side) -> None:
    """Have the system forget what is in the files of the side's nodes."""
    for path in side.nodes.directory.rglob("*.log"):
        _forget_file(path)


def _forget_file(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())  # what is not written yet, it cannot forget
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
