"""Write the README's table of clients from what a run of their tests found.

    python tools/generate_clients.py          # run tests/compat with every client, and rewrite the table (minutes)
    python tools/generate_clients.py FILE     # from what a run told: CLIENTS=all CLIENTS_TOLD=FILE pytest tests/compat

CLIENTS=all builds those clients, too, that take a minute. The tests themselves compare what they find with the table
(``tests/compat/clients_table.py``), so that it is never out of date.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
README: Final = ROOT / "README.md"

CLIENTS: Final = ("confluent-kafka", "kcat", "aiokafka", "kafka-python", "Java", "franz-go", "kafkajs", "rskafka")
CODECS: Final = ("gzip", "snappy", "lz4", "zstd")
FEATURES: Final = {
    "topics": "topics",
    "compression": "compression",
    "idempotence": "idempotence",
    "headers": "headers",
    "timestamps": "timestamps",
    "seek by time": "seek by time",
    "groups": "groups",
    "resume": "commit, resume",
    "consumer protocol": "KIP-848",
    "transactions": "transactions",
}
"""What is tried, and the head of its column. The codecs share one."""

HEAD: Final = "| client | version | " + " | ".join(FEATURES.values()) + " |\n"
RULE: Final = "|---|---|" + "---|" * len(FEATURES) + "\n"
YES, NO, ALL = "yes", "-", "all"


def row(client: str, version: str, has: Iterable[str]) -> str:
    """A client's line of the table: ``has`` are its features, each codec by its own name."""
    features = set(has)
    codecs = [codec for codec in CODECS if codec in features]
    compression = (ALL if len(codecs) == len(CODECS) else ", ".join(codecs)) or NO
    cells = [compression if name == "compression" else YES if name in features else NO for name in FEATURES]
    return f"| {client} | {version} | {' | '.join(cells)} |\n"


def table(lines: Iterable[Mapping[str, str]]) -> str:
    """All of it, from lines that name a client, its version, and a feature that works."""
    features: dict[str, set[str]] = defaultdict(set)
    versions = {}
    for line in lines:
        features[line["client"]].add(line["feature"])
        versions[line["client"]] = line["version"]
    assert not (missing := set(CLIENTS) - set(versions)), f"nothing was told of {missing}"
    return HEAD + RULE + "".join(row(client, versions[client], features[client]) for client in CLIENTS)


def read(readme: str) -> dict[str, set[str]]:
    """The features of each client, as the README has them."""
    found = {}
    for line in readme[readme.index(HEAD) + len(HEAD + RULE) :].splitlines():
        if not line.startswith("|"):
            break
        client, _, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        named = dict(zip(FEATURES, cells, strict=True))
        compression = named.pop("compression")
        codecs = CODECS if compression == ALL else [codec for codec in compression.split(", ") if codec != NO]
        found[client] = {*codecs, *(feature for feature, cell in named.items() if cell == YES)}
    return found


def run_tests(told: Path) -> None:
    """They write what works to that file. Raises CalledProcessError when one fails."""
    environment = {**os.environ, "CLIENTS": "all", "CLIENTS_TOLD": str(told)}
    subprocess.run((sys.executable, "-m", "pytest", "-q", "tests/compat"), cwd=ROOT, env=environment, check=True)


def main(arguments: list[str]) -> None:
    """Write the table into the README."""
    with tempfile.TemporaryDirectory() as directory:
        told = Path(arguments[0] if arguments else f"{directory}/told")
        if not arguments:
            run_tests(told)
        lines = [json.loads(line) for line in told.read_text().splitlines()]
    readme = README.read_text()
    begin = readme.index(HEAD)
    end = readme.index("\n\n", begin) + 1
    README.write_text(readme[:begin] + table(lines) + readme[end:])


if __name__ == "__main__":
    main(sys.argv[1:])
