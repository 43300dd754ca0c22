"""From ``python`` to the first rows of a DataFrame, with the classes of Spark prepared and without.

Each start is a process of its own, and the two kinds take turns; the median of each counts.
"""

from __future__ import annotations

import subprocess
import sys
import time
from statistics import median
from typing import Final

from benchmarks.report import Figure, Run

SUMMARY = "how long Spark takes to start, with prepared classes and without"
STARTS: Final = 5

_START: Final = """
import sys
from minikafka.spark import session
if sys.argv[1] == "without":
    session.sharing_options = lambda home: ()
session.start_session("benchmark").range(100).selectExpr("id % 3 AS of").groupBy("of").count().collect()
"""


def run(run: Run) -> list[Figure]:
    """Prepares them first."""
    from minikafka.spark.shared_classes import make_archive

    run.say("preparing the classes")
    began = time.monotonic()
    archive = make_archive()
    prepared_s = time.monotonic() - began
    found: dict[str, list[float]] = {"with": [], "without": []}
    for number in range(run.times(STARTS)):
        run.say(f"start {number + 1} of each")
        for kind, seconds in found.items():
            seconds.append(_seconds_to_start(kind))
    prepared, bare = (median(seconds) for seconds in found.values())
    return [
        Figure("start and first rows, classes prepared", prepared, "s"),
        Figure("start and first rows, not prepared", bare, "s"),
        Figure("the first to the second", prepared / bare),
        Figure("to prepare them, once", prepared_s, "s", note=f"{archive.stat().st_size / 2**20:.0f} MiB"),
    ]


def _seconds_to_start(kind: str) -> float:
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", _START, kind], check=True, stderr=subprocess.DEVNULL)
    return time.monotonic() - began
