"""``minikafka produce`` and ``consume``: keys, headers, timestamps, partitions, transactions, patterns, offsets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cluster_cli import CommandLine, QuickCommandLine

from minikafka.chaos.local_cluster import LocalCluster


class Verbs:
    """``produce`` in this process, ``consume`` in one of its own: it writes bytes to its standard output."""

    def __init__(self, directory: Path, files: Path) -> None:
        self.quick = QuickCommandLine(directory)
        self._consume = CommandLine(directory)
        self._files = files

    def produce(self, lines: bytes, *words: str, fails: bool = False) -> bytes:
        file = self._files / "lines"
        file.write_bytes(lines)
        return self.quick("produce", *words, "--file", str(file), fails=fails)

    def consume(self, *words: str, fails: bool = False) -> bytes:
        return self._consume("consume", *words, fails=fails)

    def records(self, *words: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.consume(*words, "--until-end", "--json").splitlines()]


@pytest.fixture
def verbs(server: LocalCluster, tmp_path: Path) -> Verbs:
    return Verbs(server.layout.directory, tmp_path)


def test_keys_headers_and_timestamps(verbs: Verbs) -> None:
    verbs.quick("topic", "create", "written-full", "--partitions", "2")
    same = [
        "--header",
        "source=test",
        "--timestamp",
        "2026-01-31T12:00:00",
        "--null-marker",
        "NULL",
        "--partition",
        "1",
    ]
    lines = b"trace:7\tk1\tone\n\tk2\tNULL\n\tNULL\t\xff\n"
    verbs.produce(lines, "written-full", "--headers", "-k", r"\t", *same)
    first, second, third = verbs.records("written-full", "--from-beginning")
    assert first == {
        "topic": "written-full",
        "partition": 1,
        "offset": 0,
        "timestamp": 1769860800000,
        "key": "k1",
        "value": "one",
        "headers": [["source", "test"], ["trace", "7"]],
    }
    assert (second["key"], second["value"], third["key"], third["value"]) == ("k2", None, None, {"base64": "/w=="})
    shown = verbs.consume("written-full", "--partition", "1", "--offset", "-2", "-e", "--print-key", "--print-offset")
    assert shown == b"Offset:1\tk2\tnull\nOffset:2\tnull\t\xff\n"
    formatted = verbs.consume(
        "written-full", "--from-timestamp", "1769860800000", "-e", "-f", r"%t/%p/%o %k;", "-n", "2"
    )
    assert formatted == b"written-full/1/0 k1;written-full/1/1 k2;"
    later = verbs.consume("written-full", "--from-timestamp", "2026-02-01", "-e")
    assert later == b"", "no record is that young"


def test_a_topic_is_copied_with_all_that_is_in_its_records(verbs: Verbs) -> None:
    for name in ("copied-from", "copied-to"):
        verbs.quick("topic", "create", name, "--partitions", "2")
    verbs.produce(b"h:1|k1,v1\n|k2,v2\n|k3,\n", "copied-from", "-k", ",", *(
        word for each in ("parse.headers=true", "headers.delimiter=|") for word in ("--property", each)
    ))  # fmt: skip
    copied = verbs.consume("copied-from", "--from-beginning", "-e", "--json")
    verbs.produce(copied, "copied-to", "--input", "json", "--partitioner", "input")
    strip = lambda rows: sorted((row["partition"], row["offset"], row["key"], row["headers"]) for row in rows)  # noqa: E731
    both = verbs.records("--include", "copied-(from|to)", "--from-beginning")
    by_topic = [[row for row in both if row["topic"] == name] for name in ("copied-from", "copied-to")]
    assert strip(by_topic[0]) == strip(by_topic[1])
    assert len(both) == 6


def test_transactions_and_the_end_of_a_topic(verbs: Verbs) -> None:
    """Its last offset is that of a marker: the end is reached all the same."""
    verbs.quick("topic", "create", "written-at-once", "--partitions", "1")
    verbs.produce(b"1\n2\n3\n", "written-at-once", "--transactional-id", "verbs", "--commit-every", "2")
    refused = verbs.produce(b"4\nnokey\n", "written-at-once", "--transactional-id", "verbs", "-k", "4", fails=True)
    assert b"line 2 has no key separator '4'" in refused
    assert b"stopped: 0 of the 2 lines read are committed" in refused
    refused = verbs.produce(b"1:1\n2:2\nnokey\n", "written-in-part", "--key-separator", ":", fails=True)
    assert b"stopped: 2 of the 3 lines read are acknowledged" in refused
    committed = ["written-at-once", "--from-beginning", "-e", "--isolation-level", "read_committed"]
    assert verbs.consume(*committed) == b"1\n2\n3\n"
    verbs.produce(b"5\n6\n", "written-at-once", "--no-idempotence", "--compression", "gzip")
    assert verbs.consume("written-at-once", "--offset", "-2", "-e") == b"5\n6\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("consume", "name a topic, or a pattern of topics"),
        ("consume t --include t", "exclude each other"),
        ("consume --include (", "is no regular expression"),
        ("consume t --format %q", "%q not found"),
        ("consume t --json --print-key", "--json / --print-...: exclude each other"),
        ("consume t --group g --until-end", "others may read the rest"),
        ("consume t --group g --from-timestamp 1h", "group reset-offsets moves it"),
        ("consume t --offset 1 --from-timestamp 1h", "exclude each other"),
        (
            "consume t --consumer-property fetch.min.bytes=1",
            "only group.id, auto.offset.reset and isolation.level count",
        ),
        ("produce t --commit-every 5", "needs --transactional-id"),
        ("produce t --transactional-id x --acks 1", "transactions need acks all"),
        ("produce t --idempotence --acks 0", "idempotence needs acks all"),
        ("produce t --key a --key-separator ,", "exclude each other"),
        ("produce t --input json --key-separator ,", "a JSON object has its own key and headers"),
        ("produce t --partition 0 --partitioner random", "exclude each other"),
        ("produce t --history h --partition 0", "exclude each other"),
        ("produce t --timestamp soon", "is no time as"),
        ("produce t --producer-property linger.ms=1", "only acks, compression.type"),
    ],
)
def test_what_does_not_go_together_is_told(verbs: Verbs, words: str, message: str) -> None:
    assert message in verbs.quick(*words.split(), fails=True).decode().replace("\n│ ", " ")
