"""Write the README's table of clients from what a run of their tests found.

    python tools/generate_clients.py          # run tests/compat with every client, and rewrite the table (minutes)
    python tools/generate_clients.py FILE     # from what a run told, which is in FILE

A run that tells is ``CLIENTS=all CLIENTS_TOLD=FILE pytest -m "" tests/compat``; CLIENTS=all builds those clients, too,
that take a minute. The tests themselves compare what they find with the table (``tests/compat/clients_table.py``), so
that it is never out of date.
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

CLIENTS: Final = (
    "confluent-kafka",
    "kcat",
    "aiokafka",
    "kafka-python",
    "Java",
    "Java 3.7",
    "franz-go",
    "kafkajs",
    "rskafka",
)
CODECS: Final = ("gzip", "snappy", "lz4", "zstd")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
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
    "TLS": "TLS",
    "login": "SASL",
}
"""What is tried, and the head of its column. The codecs share one, and so do the mechanisms of SASL."""
LISTS: Final = {"compression": CODECS, "login": MECHANISMS}
"""The columns that are shared, and by which features."""

HEAD: Final = "| client | version | " + " | ".join(FEATURES.values()) + " |\n"
RULE: Final = "|---|---|" + "---|" * len(FEATURES) + "\n"
YES, NO, ALL = "yes", "-", "all"


def row(client: str, version: str, has: Iterable[str]) -> str:
    """A client's line of the table: ``has`` are its features, each of a list by its own name."""
    features = set(has)

    def cell(name: str) -> str:
        if name not in LISTS:
            return YES if name in features else NO
        found = [each for each in LISTS[name] if each in features]
        return (ALL if len(found) == len(LISTS[name]) else ", ".join(found)) or NO

    cells = map(cell, FEATURES)
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
        lists = {name: named.pop(name) for name in LISTS}
        listed = [LISTS[name] if cell == ALL else cell.split(", ") for name, cell in lists.items()]
        features = {each for listing in listed for each in listing if each != NO}
        found[client] = features | {feature for feature, cell in named.items() if cell == YES}
    return found


def run_tests(told: Path) -> None:
    """They write what works to that file. Raises CalledProcessError when one fails."""
    environment = {**os.environ, "CLIENTS": "all", "CLIENTS_TOLD": str(told)}
    subprocess.run(
        (sys.executable, "-m", "pytest", "-q", "-m", "", "tests/compat"), cwd=ROOT, env=environment, check=True
    )


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
