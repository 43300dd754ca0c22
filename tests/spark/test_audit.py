"""The audit on Spark and the checker in memory come to the same verdict on the same history."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from itertools import chain
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from typer.testing import CliRunner

from minikafka.chaos.demo import create_topic
from minikafka.chaos.history import History
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.chaos.workload import SourceProducer, read_back, record_id
from minikafka.cli.main import app
from minikafka.cli.pipeline import audit as audit_verb
from minikafka.ledger.checker import RULES, check, gather
from minikafka.ledger.events import Event, merge
from minikafka.spark.pipelines.archive import archive
from minikafka.spark.pipelines.audit import AuditVerdict, audit, stored_in_logs
from minikafka.spark.pipelines.audit.stored import IDENTITY, READER
from minikafka.spark.pipelines.audit.verdict import EXAMPLES_MAX
from minikafka.spark.pipelines.running import PipelineError

FIGURES = ("sent", "acknowledged", "read", "unknown")
STORED = "topic STRING, partition INT, offset BIGINT, key BINARY, value BINARY"
ID = "cast(value AS STRING)"

Told = tuple[str, str, str, list[list[object]]]  # process, type, function, value without the partition
Stored = dict[int, str]  # offset -> id


def write(path: Path, events: Iterable[Event]) -> Path:
    path.write_text("".join(event.to_json() + "\n" for event in events))
    return path


def numbered(told: Iterable[tuple[str, str, str, object]]) -> list[Event]:
    return [Event(number, number, *rest) for number, rest in enumerate(told)]


def at(partition: str, told: Iterable[Told]) -> list[tuple[str, str, str, object]]:
    """What was told of a partition, with its name in every item."""
    return [
        (process, kind, function, [[partition, *item] for item in items] if items else [partition])
        for process, kind, function, items in told
    ]


def reading(partition: str, stored: Stored) -> list[tuple[str, str, str, object]]:
    """What a consumer tells that reads all that is stored."""
    handed = [[partition, record, offset] for offset, record in sorted(stored.items())]
    return [
        (READER, "ok", "assign", [partition]),
        (READER, "ok", "poll", handed),
        (READER, "ok", "drained", [partition]),
    ]


def rows(spark: SparkSession, stored: dict[str, Stored]) -> DataFrame:
    found = []
    for name, records in stored.items():
        topic, _, number = name.rpartition("-")
        found += [(topic, int(number), offset, None, record.encode()) for offset, record in records.items()]
    return spark.createDataFrame(found, STORED)


def assert_same(verdict: AuditVerdict, events: dict[str, list[Event]]) -> None:
    """Partition by partition: the same figures and counts, and sentences that the checker says, too."""
    judged = {partition.partition: partition for partition in verdict.partitions}
    assert judged.keys() == events.keys()
    for name, of_partition in events.items():
        ours, theirs = judged[name], check(of_partition)
        sentences = {rule: set(judge(gather(of_partition)[name])) for rule, judge in RULES.items()}
        told = "\n".join(event.to_json() for event in of_partition)
        assert {figure: getattr(ours, figure) for figure in FIGURES} == {
            figure: getattr(theirs, figure) for figure in FIGURES
        }, told
        assert {rule: ours.violations.get(rule, 0) for rule in RULES} == theirs.violations, told
        for rule, found in sentences.items():
            examples = ours.examples.get(rule, ())
            assert set(examples) <= found, told
            assert len(examples) == min(theirs.violations[rule], EXAMPLES_MAX), told


# -- histories of chance -----------------------------------------------------------------------------------------------

IDS = "abcdef"
PARTITIONS = 300  # each is judged apart, so that one audit judges many histories


def story(rng: random.Random) -> list[Told]:
    """Anything that clients can tell of a partition of few records and few offsets, in any order."""
    unsent = rng.sample(IDS, len(IDS))
    told: list[Told] = []
    for _ in range(rng.randrange(1, 12)):
        client, consumer = rng.choice("pq"), rng.choice("cd")
        placed: list[list[object]] = [[rng.choice(IDS), rng.randrange(7)] for _ in range(rng.randrange(1, 5))]
        sending = [[unsent.pop()] for _ in range(min(len(unsent), rng.randrange(1, 4)))]
        told.append(
            rng.choice(
                [
                    (client, "invoke" if sending else "info", "send", sending or [["a"]]),
                    (client, "ok", "send", placed),
                    (client, rng.choice(("fail", "info")), "send", [[rng.choice(IDS)]]),
                    (consumer, "ok", "poll", placed),
                    (consumer, "ok", "poll", sorted(placed, key=lambda item: item[1])),
                    (consumer, "ok", rng.choice(("assign", "drained")), []),
                    (consumer, "ok", "end_offset", [[rng.randrange(7)]]),
                ]
            )
        )
    return told


def test_polls_are_judged_as_in_memory(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(1)
    told = {f"t-{n}": at(f"t-{n}", story(rng)) for n in range(PARTITIONS)}
    path = write(tmp_path / "history.jsonl", numbered(chain(*told.values())))
    verdict = audit(spark, path)
    assert all(verdict.violations.values()), "chance should break every rule"
    assert_same(verdict, {name: numbered(of) for name, of in told.items() if names(of)})


def test_what_is_stored_is_judged_as_a_consumer_that_read_it(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(2)
    told = {f"t-{n}": at(f"t-{n}", story(rng)) for n in range(PARTITIONS)}
    stored = {name: {rng.randrange(7): rng.choice(IDS) for _ in range(rng.randrange(6))} for name in told}
    path = write(tmp_path / "history.jsonl", numbered(chain(*told.values())))
    verdict = audit(spark, path, ["t"], stored=rows(spark, stored), identity=ID)
    events = {name: of + reading(name, stored[name]) for name, of in told.items() if names(of) or stored[name]}
    assert_same(verdict, {name: numbered(of) for name, of in events.items()})


def test_ids_of_histories_are_those_of_what_is_stored_whatever_bytes_keys_are(spark: SparkSession) -> None:
    keys = [None, b"", "hä".encode(), b"\xff\xfe", b"a\xed\xa0\x80b", b"\xf0\x9f\x98"]
    records = [(key, value) for key in keys for value in (None, b"", b"\xff")]
    stored = spark.createDataFrame(records, "key BINARY, value BINARY").selectExpr(f"{IDENTITY} AS id").collect()
    assert [row.id for row in stored] == [record_id(*record) for record in records]


def test_files_of_several_processes_are_one_history(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(3)
    files = {}
    for file in ("a.jsonl", "b.jsonl"):
        told = [at(f"{file[0]}-{n}", story(rng)) for n in range(20)]
        files[file] = numbered([*chain(*told), *at("shared-0", [("c", "ok", "poll", [["a", rng.randrange(3)]])])])
        write(tmp_path / file, files[file])
    (tmp_path / "notes.txt").write_text("not of the history")
    merged = list(merge(files))
    verdict = audit(spark, tmp_path)
    whole = check(merged)
    assert (verdict.sent, verdict.read, verdict.violations) == (whole.sent, whole.read, whole.violations)
    assert any("a.jsonl:" in sentence for of in verdict.examples.values() for sentence in of)


# -- a real history ----------------------------------------------------------------------------------------------------


def test_a_cluster_whose_leader_was_killed_is_judged_the_same_by_every_way_to_read_it(
    spark: SparkSession, start_cluster: Callable[..., LocalCluster], tmp_path: Path
) -> None:
    cluster = start_cluster()
    create_topic(cluster.bootstrap_servers, "t", 2)
    path = tmp_path / "history.jsonl"
    with path.open("w") as file:
        history = History(file)
        producer = SourceProducer(cluster.bootstrap_servers, "t", 2, history, 500)
        producer.start()
        wait_until(lambda: producer.acknowledged > 500)
        cluster.kill(1)
        before = producer.acknowledged
        wait_until(lambda: producer.acknowledged > before + 500)
        cluster.start_node(1)
        cluster.wait_in_sync(60)
        producer.finish()
        asyncio.run(read_back(cluster.bootstrap_servers, "t", 2, history))
    in_memory = check(history.events)
    assert in_memory.ok
    by_polls = audit(spark, path)
    by_topics = audit(spark, path, ["t"], bootstrap_servers=cluster.bootstrap_servers)
    by_logs = audit(spark, path, ["t"], stored=stored_in_logs(spark, [str(cluster.layout.directory)], ["t"]))
    for verdict in (by_polls, by_topics, by_logs):
        assert verdict.ok, verdict.examples
        for figure in FIGURES:
            assert getattr(verdict, figure) == getattr(in_memory, figure)
    with pytest.raises(PipelineError, match="nothing-such"):
        audit(spark, path, ["nothing-such"], bootstrap_servers=cluster.bootstrap_servers)


@pytest.fixture
def minikafka(
    spark: SparkSession, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str]]:
    """Runs a verb within the session of the tests; its exit code and what it printed to stdout."""
    monkeypatch.setattr(audit_verb, "spark_session", lambda *_: nullcontext(spark))

    def run(*words: object) -> tuple[int, str]:
        ran = CliRunner().invoke(app, [*map(str, words), "--bootstrap-server", cluster.bootstrap_servers])
        return ran.exit_code, ran.stdout

    return run


def test_the_verb_judges_what_produce_wrote_down_in_topic_and_lake_and_exits_with_its_verdict(
    spark: SparkSession,
    cluster: LocalCluster,
    created: str,
    tmp_path: Path,
    minikafka: Callable[..., tuple[int, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    history, lines, lake = tmp_path / "sent.jsonl", tmp_path / "lines", tmp_path / "lake"
    lines.write_text("".join(f"k{number % 7}:{number}\n" for number in range(200)) + "k1:\nk2:é\n")
    produced, _ = minikafka(
        "produce", created, "--file", lines, "--key-separator", ":", "--history", history, "--compression", "lz4"
    )
    assert produced == 0
    archive(spark, topics=[created], to=lake, bootstrap_servers=cluster.bootstrap_servers)
    asked = ("pipeline", "audit", "--history", history, "--topics", created)
    exit_code, printed = minikafka(*asked)
    assert exit_code == 0, printed
    assert "202 acknowledged records: none lost, duplicated or reordered" in printed
    assert max(map(len, printed.splitlines())) <= 80

    # A record more that was acknowledged, and that nobody can find.
    count = len(history.read_text().splitlines())
    item = [f"{created}-0", "gone#00000000"]
    with history.open("a") as file:
        file.write(Event(count, 0, "producer", "invoke", "send", [item]).to_json() + "\n")
        file.write(Event(count + 1, 0, "producer", "ok", "send", [[*item, 0]]).to_json() + "\n")
    exit_code, printed = minikafka(*asked, "--lake", lake)
    assert exit_code == 1, printed
    assert f"{created}-0: gone#00000000 was acknowledged at 0 and never read" in printed


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


# -- what cannot be judged ---------------------------------------------------------------------------------------------

GOOD = '{"i":0,"t":0,"p":"p","type":"invoke","f":"send","v":[["t-0","a"]]}\n'
SECOND = GOOD.replace('"i":0', '"i":1').replace('"a"', '"b"')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD + "what?\n" + SECOND, r"history.jsonl: not an event of a history: 'what\?'"),
        (GOOD + '{"a":1}\n', r"history.jsonl: not an event of a history: JSON without the fields i, p, type and f"),
        (
            GOOD + SECOND.replace('"i":1', '"i":2'),
            r"history.jsonl: it holds 2 events, and the last is number 2",
        ),
        (GOOD + GOOD, r"history.jsonl: it holds 2 events, and the last is number 0: lines are missing or there twice"),
        (GOOD + SECOND.replace('"b"', '"a"'), r"a was sent 2 times to t-0: a history must send each id once"),
        (GOOD.replace("invoke", "ok"), r'history.jsonl: event 0 cannot be judged: \["t-0","a"\]'),
        (GOOD.replace("t-0", "t"), r'history.jsonl: event 0 cannot be judged: \["t","a"\]'),
        (GOOD.replace('[["t-0","a"]]', '"a word"'), r"history.jsonl: event 0 cannot be judged: "),
    ],
)
def test_a_damaged_history_is_refused_in_a_line(spark: SparkSession, tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(text)
    with pytest.raises(PipelineError, match=message) as raised:
        audit(spark, path)
    assert "\n" not in str(raised.value)


def test_an_unfinished_last_line_is_left_out(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(GOOD + SECOND[:30])
    assert audit(spark, path).sent == 1


def test_what_is_not_there_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"there is no history .*nowhere"):
        audit(spark, tmp_path / "nowhere")
    with pytest.raises(PipelineError, match=r"no file ends in \.jsonl"):
        audit(spark, tmp_path)
    (tmp_path / "history.jsonl").write_text(GOOD)
    with pytest.raises(PipelineError, match="the history says nothing of topic other"):
        audit(spark, tmp_path, ["other"])
    with pytest.raises(PipelineError, match="nothing_such"):
        audit(spark, tmp_path, ["t"], stored=rows(spark, {"t-0": {0: "a"}}), identity="nothing_such")


def names(told: list[tuple[str, str, str, object]]) -> bool:
    """Whether a history says something of a partition that a verdict can show."""
    return any((function, kind) not in (("drained", "ok"), ("send", "info")) for _, kind, function, _ in told)
