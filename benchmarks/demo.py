"""How long ``minikafka demo`` takes once everything is installed."""

from __future__ import annotations

import json
import subprocess
import time

from benchmarks.report import Figure, Run, Target
from benchmarks.start import PROGRAM

SUMMARY = "how long the demonstration takes"


def run(run: Run) -> list[Figure]:
    """Once."""
    began = time.monotonic()
    done = subprocess.run([PROGRAM, "demo", "--json"], capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    assert done.stdout, done.stderr
    outcome = json.loads(done.stdout)
    wrong = outcome["lost"] + outcome["duplicated"] + outcome["out_of_order"]
    note = f"{outcome['acknowledged']:,} acknowledged, {outcome['read']:,} read back"
    return [
        Figure("minikafka demo, when set up", seconds, "s", Target("<", 30.0)),
        Figure("lost, duplicated or out of order", wrong, "", Target("=", 0), note),
    ]
