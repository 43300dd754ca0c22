"""Kafka's own command-line tools for records, groups, transactions and log files: every verb, and what it prints."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from cluster_tools import Tools, create, lines, rows
from live_cluster import eventually

from minikafka.chaos.local_cluster import LocalCluster


def test_records_and_offsets(tools: Tools, tooled: LocalCluster, file: Path) -> None:
    create(tools, tooled, "read", "1:2:3", "2:3:1")
    keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    tools("console-producer", "--topic", "read", "--sync", *keyed, given="a:1\nb:2\na:3\n")
    shown = [word for name in ("key", "partition", "offset") for word in ("--formatter-property", f"print.{name}=true")]
    read = tools("console-consumer", "--topic", "read", "--from-beginning", "--max-messages", "3", *shown)
    assert sorted(line.split("\t")[2:] for line in read.splitlines()) == [["a", "1"], ["a", "3"], ["b", "2"]]
    count = {partition: len(re.findall(rf"Partition:{partition}\t", read)) for partition in (0, 1)}
    of_a = max(count, key=lambda partition: count[partition])
    at = ("--partition", str(of_a), "--offset", str(count[of_a] - 1), "--max-messages", "1")
    assert tools("console-consumer", "--topic", "read", *at) == "3\n"
    committed = ("--include", "rea.", "--isolation-level", "read_committed", "--group", "once", "--from-beginning")
    assert lines(tools("console-consumer", *committed, "--max-messages", "3")) == ["1", "2", "3"]

    def offsets(*time: str) -> dict[int, int]:
        told = (line.split(":") for line in tools("get-offsets", "--topic", "read", *time).split())
        return {int(partition): int(offset) for _topic, partition, offset in told}

    assert offsets() == offsets("--time", "latest") == offsets("--time", "-1") == count
    assert offsets("--time", "earliest") == offsets("--time", "-2") == offsets("--time", "-4") == {0: 0, 1: 0}
    written = {partition for partition in count if count[partition]}
    assert offsets("--time", "0") == dict.fromkeys(written, 0)
    assert offsets("--time", "max-timestamp").keys() == written
    assert offsets("--time", "latest-tiered") == offsets("--time", "-6") == {}
    assert (
        tools("get-offsets", "--topic-partitions", f"read:{of_a}", "--exclude-internal-topics")
        == f"read:{of_a}:{count[of_a]}\n"
    )
    file.write_text(json.dumps({"partitions": [{"topic": "read", "partition": of_a, "offset": 1}]}))
    assert f"partition: read-{of_a}\tlow_watermark: 1" in tools("delete-records", "--offset-json-file", str(file))
    file.write_text(json.dumps({"partitions": [{"topic": "read", "partition": of_a, "offset": 99}]}))
    assert "OffsetOutOfRangeException" in tools("delete-records", "--offset-json-file", str(file))
    assert offsets("--time", "earliest")[of_a] == 1


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups(tools: Tools, tooled: LocalCluster, protocol: str) -> None:
    topic, group = f"worked-{protocol}", f"workers-{protocol}"
    create(tools, tooled, topic, "1:2:3", "2:3:1")
    # A key for each partition: a consumer commits no offset of a partition whose start it has not yet looked up when
    # the others have given it all that it was asked for.
    keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    tools("console-producer", "--topic", topic, *keyed, given="a:1\nd:2\na:3\n")
    reading = ("--topic", topic, "--from-beginning", "--max-messages", "3", "--group", group)
    tools("console-consumer", *reading, "--command-property", f"group.protocol={protocol}")
    named = ("--group", group)

    def offsets(*words: str) -> dict[tuple[str, int], int]:
        told = rows(tools("consumer-groups", *words))
        return {(row[1], int(row[2])): int(row[3]) for row in told if row[0] == group}

    assert group in lines(tools("consumer-groups", "--list"))
    assert [group, protocol.capitalize()] in rows(tools("consumer-groups", "--list", "--type"))
    assert [group, "Empty"] in rows(tools("consumer-groups", "--list", "--state"))
    assert [group, protocol.capitalize()] in rows(tools("consumer-groups", "--list", "--type", protocol))
    assert group not in tools("consumer-groups", "--list", "--state", "stable")
    assert [group, protocol.capitalize(), "consumer"] in rows(tools("groups", "--list", "--group-type", protocol))
    assert [group, protocol.capitalize(), "consumer"] in rows(tools("groups", "--list", "--consumer"))
    assert rows(tools("groups", "--list", "--share")) == rows(tools("groups", "--list", "--streams")) == []

    assert sum(offsets("--describe", *named).values()) == 3
    assert sum(offsets("--describe", "--all-groups", "--offsets").values()) == 3
    assert [row[:2] for row in rows(tools("consumer-groups", "--describe", *named, "--verbose"))] == [
        [group, topic]
    ] * 2
    assert rows(tools("consumer-groups", "--describe", *named, "--members", "--verbose")) == []
    (state,) = rows(tools("consumer-groups", "--describe", *named, "--state"))
    assert (state[0], state[-2:]) == (group, ["Empty", "0"])
    assert f"({tooled.coordinator_of(group)})" in state

    reset = ("--reset-offsets", *named)
    start = {(topic, 0): 0, (topic, 1): 0}
    asked = ("--topic", topic, "--to-earliest")
    assert {
        (row[1], int(row[2])): int(row[3]) for row in rows(tools("consumer-groups", *reset, *asked, "--dry-run"))
    } == start
    assert sum(offsets("--describe", *named).values()) == 3, "a dry run"
    tools("consumer-groups", *reset, "--topic", f"{topic}:0,1", "--to-offset", "0", "--execute")
    assert offsets("--describe", *named) == start
    tools("consumer-groups", *reset, "--all-topics", "--to-latest", "--execute")
    assert sum(offsets("--describe", *named).values()) == 3
    tools("consumer-groups", *reset, "--all-topics", "--shift-by", "-9", "--execute")
    assert offsets("--describe", *named) == start
    exported = tools("consumer-groups", *reset, "--all-topics", "--by-duration", "PT1H", "--export", "--dry-run")
    assert {f"{topic},0,0", f"{topic},1,0"} <= set(exported.split())

    deleted = tools("consumer-groups", "--delete-offsets", *named, "--topic", f"{topic}:0")
    assert re.search(rf"{topic} +0 +Successful", deleted)
    assert offsets("--describe", *named).keys() == {(topic, 1)}
    assert "`w.*` is valid" in tools("consumer-groups", "--validate-regex", "w.*")
    assert f"('{group}') was successful" in tools("consumer-groups", "--delete", *named)
    assert "GroupIdNotFoundException" in tools("consumer-groups", "--delete", *named)
    assert "GroupIdNotFoundException" in tools("consumer-groups", "--describe", *named)


def test_transactions(tools: Tools, tooled: LocalCluster) -> None:
    create(tools, tooled, "booked", "1:2:3")
    load = ("--topic", "booked", "--num-records", "10", "--record-size", "10", "--throughput", "-1")
    done = tools("producer-perf-test", *load, "--transactional-id", "books", "--transaction-duration-ms", "50")
    assert "10 records sent" in done
    (transaction,) = eventually(
        lambda: [row for row in rows(tools("transactions", "list")) if row[3] == "CompleteCommit"], "the commit"
    )
    assert transaction[0] == "books"
    assert rows(tools("transactions", "list", "--duration-filter", "1")) == []
    assert rows(tools("transactions", "list", "--transactional-id-pattern", "b.*s")) == [transaction]
    (described,) = rows(tools("transactions", "describe", "--transactional-id", "books"))
    assert described[:3] == [transaction[1], "books", transaction[2]]
    producers = rows(tools("transactions", "describe-producers", "--topic", "booked", "--partition", "0"))
    assert [row[-1] for row in producers] == ["None"]
    assert rows(tools("transactions", "find-hanging", "--topic", "booked")) == []
    assert rows(tools("transactions", "find-hanging", "--broker-id", "1")) == []
    partition = ("--topic", "booked", "--partition", "0")
    assert "Could not find any open transactions" in tools.refuses(
        "transactions", "abort", *partition, "--start-offset", "0"
    )
    tools("transactions", "forceTerminateTransaction", "--transactionalId", "books")
    assert "could not be found" in tools.refuses("transactions", "describe", "--transactional-id", "absent")


def test_load_and_verification(tools: Tools, tooled: LocalCluster) -> None:
    create(tools, tooled, "loaded", "1:2:3")
    load = ("--topic", "loaded", "--num-records", "100", "--record-size", "100", "--throughput", "-1")
    assert "100 records sent" in tools("producer-perf-test", *load, "--print-metrics")
    (read,) = rows(tools("consumer-perf-test", "--topic", "loaded", "--num-records", "100", "--timeout", "20000"))
    assert read[6] == "100,"
    latency = ("--topic", "loaded", "--num-records", "5", "--producer-acks", "all", "--record-size", "20")
    assert "Percentiles: 50th" in tools("e2e-latency", *latency)
    written = tools("verifiable-producer", "--topic", "loaded", "--max-messages", "3", "--value-prefix", "7")
    events = [json.loads(line) for line in written.splitlines()]
    sent = [event for event in events if event["name"] == "producer_send_success"]
    assert [(event["value"], event["offset"]) for event in sent] == [("7.0", 105), ("7.1", 106), ("7.2", 107)]
    for protocol in ("classic", "consumer"):
        group = ("--group-id", f"verified-{protocol}", "--group-protocol", protocol)
        all_of_it = ("--topic", "loaded", "--max-messages", "108", "--reset-policy", "earliest")
        events = [json.loads(line) for line in tools("verifiable-consumer", *group, *all_of_it).splitlines()]
        names = [event["name"] for event in events]
        assert {"startup_complete", "partitions_assigned", "offsets_committed", "shutdown_complete"} <= set(names)
        assert all(event["success"] for event in events if event["name"] == "offsets_committed")


def test_streams_are_reset(tools: Tools, tooled: LocalCluster) -> None:
    create(tools, tooled, "streamed", "1:2:3")
    create(tools, tooled, "app-counts-changelog", "1:2:3")
    app = ("--application-id", "app", "--input-topics", "streamed")
    said = tools("streams-application-reset", *app, "--to-earliest", "--dry-run")
    assert "Topic: streamed Partition: 0 Offset: 0" in said
    assert "app-counts-changelog" in said
    assert "app-counts-changelog" in tools("topics", "--list")
    tools("streams-application-reset", *app, "--to-earliest", "--force")
    assert "app-counts-changelog" not in tools("topics", "--list")
    (row,) = rows(tools("consumer-groups", "--describe", "--group", "app"))
    assert row[:4] == ["app", "streamed", "0", "0"]


def test_log_files_are_dumped(tools: Tools, tooled: LocalCluster) -> None:
    """Of active segments, which have no index files yet."""
    create(tools, tooled, "dumped", "1:2:3")
    tools("console-producer", "--topic", "dumped", given="one\ntwo\n")
    tools("console-consumer", "--topic", "dumped", "--from-beginning", "--max-messages", "2", "--group", "dumpers")
    data = tooled.layout.data_directory(1)
    log = data / "dumped-0" / f"{0:020}.log"
    assert not log.with_suffix(".index").exists()
    dumped = tools("dump-log", "--files", str(log), "--print-data-log", "--deep-iteration", at=None)
    assert re.findall(r"payload: (\w+)", dumped) == ["one", "two"]
    assert "isvalid: true" in dumped
    offsets = sorted(path for path in data.glob(f"__consumer_offsets-*/{0:020}.log") if path.stat().st_size)
    decoded = tools("dump-log", "--files", ",".join(map(str, offsets)), "--offsets-decoder", at=None)
    assert '"data":{"group":"dumpers","topic":"dumped","partition":0}' in decoded
    transactions = sorted(path for path in data.glob(f"__transaction_state-*/{0:020}.log"))
    if transactions:
        tools("dump-log", "--files", ",".join(map(str, transactions)), "--transaction-log-decoder", at=None)
