"""``python -m benchmarks [NAME...]``: run benchmarks one after the other, and exit with 1 when a target was missed."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Final

from rich.console import Console

from benchmarks import machine
from benchmarks.report import Figure, Run, show

NAMES: Final = (
    "start",
    "kit",
    "idle",
    "failover",
    "producer_gap",
    "rejoin",
    "kill_all",
    "replication",
    "reassignment",
    "small_requests",
    "fetching",
    "scraping",
    "quota",
    "security.tls",
    "security.others",
    "security.rights",
    "security.logins",
    "beside.starting",
    "beside.small",
    "beside.batches",
    "beside.mock",
    "beside.latency",
    "beside.consuming",
    "beside.growth",
    "beside.outages",
    "transactions.copying",
    "transactions.visible",
    "transactions.failover",
    "transactions.many",
    "groups.heartbeats",
    "groups.failover",
    "partitions",
    "rebalance",
    "purgatory",
    "compaction",
    "demo",
    "spark_start",
    "spark_microbatch",
    "spark_source",
    "spark_sink",
    "archive",
    "lake",
    "audit",
    "check",
)


def main() -> int:
    """Run what was asked for."""
    arguments = _arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that no broker stays behind
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or every broker would compile its sources anew
    console = Console(stderr=arguments.json is not None, width=max(120, Console().width))
    console.print(f"[bold]{machine.description()}[/]", highlight=False)
    run = Run(console, arguments.quick)
    results: dict[str, list[Figure]] = {}
    for name in arguments.names:
        results[name], told = _measure(name, run)
        if arguments.json is not None:
            _write(arguments.json, name, told)
    figures = [figure for of in results.values() for figure in of]
    targets = [figure for figure in figures if figure.target is not None]
    if len(results) > 1:
        show(console, "All that has a target", targets)
    return 0 if arguments.lenient or all(figure.is_met for figure in targets) else 1


def _arguments() -> argparse.Namespace:
    summaries = "\n".join(f"  {name:<24}{_summary(name)}" for name in NAMES)
    parser = argparse.ArgumentParser(
        "python -m benchmarks",
        description="Measure the figures of benchmarks/README.md on clusters of this machine.",
        epilog=f"benchmarks:\n{summaries}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="which ones, or a package of them (default: all)")
    parser.add_argument("--quick", action="store_true", help="repeat less, to see that they work")
    parser.add_argument("--lenient", action="store_true", help="exit with 0 also when a target was missed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too, among those of others")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.names if not _named(name)]:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    try:
        _written(arguments.json)
    except (OSError, ValueError) as error:  # before an hour of work
        parser.error(f"{arguments.json} is not a file of figures ({error}); name another")
    arguments.names = [each for name in arguments.names for each in _named(name)] or NAMES
    return arguments


def _named(name: str) -> list[str]:
    """That one, or all parts of a package."""
    return [each for each in NAMES if each == name or each.startswith(f"{name}.")]


def _summary(name: str) -> str:
    summary: str = import_module(f"benchmarks.{name}").SUMMARY
    return summary


def _measure(name: str, run: Run) -> tuple[list[Figure], dict[str, object]]:
    """Its figures; and all that is to be known of the run, for a file."""
    run.console.print(f"\n[bold]{name}[/]: {_summary(name)}", highlight=False)
    load = os.getloadavg()[0]
    neighbours, began = machine.Neighbours(), time.monotonic()
    figures: list[Figure] = import_module(f"benchmarks.{name}").run(run)
    seconds, cores = time.monotonic() - began, neighbours.cores_used()
    disturbed = f"load {load:.1f} before; others used {cores:.2f} cores meanwhile"
    show(run.console, f"{name} ({seconds:.0f} s; {disturbed})", figures)
    told = {
        "summary": _summary(name),
        "when": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": machine.description(),
        "is_quick": run.quick,
        "seconds": round(seconds),
        "others_used_cores": round(cores, 2),
        "figures": [figure.as_dict() for figure in figures],
    }
    return figures, told


def _write(path: Path, name: str, told: dict[str, object]) -> None:
    """Put it in the file, in place of what it had by that name."""
    path.write_text(json.dumps({**_written(path), name: told}, indent=1) + "\n")


def _written(path: Path | None) -> dict[str, object]:
    """What the file has so far. OSError, ValueError."""
    known = json.loads(path.read_text()) if path is not None and path.exists() else {}
    if not isinstance(known, dict):
        raise ValueError("not a JSON object")
    return known


if __name__ == "__main__":
    sys.exit(main())
