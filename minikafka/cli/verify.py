"""``minikafka log verify``: every file of log directories, looked at without a node, and without a change."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from minikafka.cli.options import AsJson, Directory, cluster_directory
from minikafka.cli.output import fail, print_json, print_line, print_table, size
from minikafka.cli.progress import bytes_bar
from minikafka.model import TopicPartition

if TYPE_CHECKING:
    from minikafka.storage.disk import OsDisk
    from minikafka.storage.examination import Finding, Findings

COLUMNS: Final = ("", "file", "at", "found")
BOOT_ID_FILE: Final = Path("/proc/sys/kernel/random/boot_id")
_COLORS: Final = {"damage": "bold red", "mended": "yellow", "note": "dim"}
_DEPTH: Final = 2  # of log directories in the directory of a cluster: node-1/data


def verify(
    directories: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[DIR]...",
            help="Log directories, or partitions in them. Default: all of the local cluster.",
            show_default=False,
        ),
    ] = None,
    records: Annotated[bool, typer.Option("--records", "-r", help="Decode every record, too.")] = False,
    directory: Directory = None,
    as_json: AsJson = False,
) -> None:
    """Verify all files of log directories: checksums, offsets, epochs, indexes, snapshots, checkpoints.

    It changes nothing. Beside a running node it says what it cannot judge. Exit code 1 if it finds damage, or what a
    start of the node has to mend.

    Examples:

    [bold]minikafka log verify[/]

    [bold]minikafka log verify ~/.minikafka/default/node-1/data/events-0[/]
    """
    from minikafka.cli.run import quiet_when_the_reader_leaves
    from minikafka.storage.disk import OsDisk
    from minikafka.storage.examination import Findings

    disk = OsDisk()
    chosen = directories or [cluster_directory(directory)]
    places = [place for each in chosen for place in _places(disk, each)]
    with quiet_when_the_reader_leaves(), bytes_bar(_bytes_of(places)) as advance:
        findings = Findings(advance)
        running = [str(place) for place in places if _examine(disk, place, findings, records)]
    with quiet_when_the_reader_leaves():
        if as_json:
            print_json(_as_json(findings, running))
        else:
            _print(findings, running, _common(places))
    if any(finding.severity != "note" for finding in findings.found):
        raise typer.Exit(1)


def _places(disk: OsDisk, directory: Path) -> list[Path]:
    """The log directories and partitions in a directory, or itself."""
    from minikafka.storage.examination import is_log_directory

    path = Path(os.path.abspath(directory))
    if not path.is_dir():
        fail(f"{directory}: {'not a directory' if path.exists() else 'directory not found'}")
    if _partition(path) is not None or is_log_directory(disk, str(path)):
        return [path]
    found = [
        inner
        for depth in range(1, _DEPTH + 1)
        for inner in sorted(path.glob("/".join("*" * depth)))
        if inner.is_dir() and is_log_directory(disk, str(inner))
    ]
    if not found:
        fail(f"{directory}: no log directory, and none in it; name one of log.dirs, or a partition in it")
    return found


def _partition(path: Path) -> TopicPartition | None:
    """The partition whose directory it is, by its name and content."""
    from minikafka.storage.directory_names import parse_directory_name

    tp = parse_directory_name(path.name)
    is_one = tp is not None and any(
        each.suffix == ".log" or each.name == "partition.metadata" for each in path.iterdir()
    )
    return tp if is_one else None


def _bytes_of(places: list[Path]) -> int:
    total = 0
    for place in places:
        for inner in place.rglob("*.log"):
            try:
                total += inner.stat().st_size
            except OSError:  # of a running node
                continue
    return total


def _examine(disk: OsDisk, place: Path, findings: Findings, decodes: bool) -> bool:
    """True if a node runs on it."""
    from minikafka.storage.examination import examine_directory, examine_partition, read_facts

    boot_id = BOOT_ID_FILE.read_text().strip() if BOOT_ID_FILE.exists() else None
    tp = _partition(place)
    if tp is None:
        return examine_directory(disk, str(place), boot_id, findings, decodes=decodes).is_running
    facts = read_facts(disk, str(place.parent), boot_id, findings)
    examine_partition(disk, str(place), tp, facts, findings, decodes=decodes)
    return facts.is_running


def _common(places: list[Path]) -> str:
    """What all paths begin with, and need not be told in each row."""
    return os.path.commonpath([place if _partition(place) is None else place.parent for place in places])


def _print(findings: Findings, running: list[str], common: str) -> None:
    from rich.markup import escape

    rows = [
        (
            f"[{_COLORS[each.severity]}]{each.severity}[/]",
            escape(os.path.relpath(each.path, common)),
            _where(each),
            escape(each.what),
        )
        for each in findings.found
    ]
    if rows:
        print_line(f"in {common}:")
        print_table(COLUMNS, rows)
    for place in running:
        print_line(f"a node runs on {place}: ends of logs, and what is newer than its checkpoints, cannot be judged")
    counts = (
        (findings.partitions, "partition", "s"),
        (findings.segments, "segment", "s"),
        (findings.batches, "batch", "es"),
    )
    logs = ", ".join(f"{count:,} {noun}{'' if count == 1 else more}" for count, noun, more in counts)
    print_line(f"{logs}, {size(findings.bytes_read)}: {_verdict(findings)}")


def _verdict(findings: Findings) -> str:
    from minikafka.storage.examination import Severity

    damage, mended = findings.count(Severity.DAMAGE), findings.count(Severity.MENDED)
    words = [f"{damage} damaged"] if damage else []
    words += [f"{mended} that a start mends"] if mended else []
    return ", ".join(words) or "no damage"


def _where(finding: Finding) -> str:
    words = [] if finding.offset is None else [f"offset {finding.offset}"]
    words += [] if finding.position is None else [f"byte {finding.position}"]
    return ", ".join(words)


def _as_json(findings: Findings, running: list[str]) -> dict[str, Any]:
    from minikafka.storage.examination import Severity

    return {
        "damaged": findings.count(Severity.DAMAGE),
        "mended": findings.count(Severity.MENDED),
        "partitions": findings.partitions,
        "segments": findings.segments,
        "batches": findings.batches,
        "bytes": findings.bytes_read,
        "running": running,
        "findings": [each._asdict() for each in findings.found],
    }
