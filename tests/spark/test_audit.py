"""The audit on Spark and the checker in memory come to the same verdict on the same history."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Message, Producer
from ledger_planted import HARMLESS, PLANTED, Planted, Story
from ledger_random import MUTATIONS, Tale, honest
from pyspark.sql import DataFrame, SparkSession
from typer.testing import CliRunner

from minikafka.chaos.demo import create_topic
from minikafka.chaos.history import History
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.chaos.workload import SourceProducer, read_back, record_id
from minikafka.cli.main import app
from minikafka.cli.pipeline import audit as audit_verb
from minikafka.ledger.checker import check
from minikafka.ledger.events import Event
from minikafka.ledger.judging import unassigned
from minikafka.ledger.partition import gather
from minikafka.ledger.rules import RULES
from minikafka.ledger.sentences import skips_not_judged
from minikafka.spark.pipelines.archive import archive
from minikafka.spark.pipelines.audit import AuditVerdict, PartitionVerdict, audit, stored_in_logs
from minikafka.spark.pipelines.audit.stored import IDENTITY, READER
from minikafka.spark.pipelines.audit.verdict import EXAMPLES_MAX, topic_and_number
from minikafka.spark.pipelines.running import PipelineError

STORED = "topic STRING, partition INT, offset BIGINT, key BINARY, value BINARY"
ID = "cast(value AS STRING)"

GOOD = '{"i":0,"t":0,"p":"p","type":"invoke","f":"send","v":[["t-0","a"]]}\n'
SECOND = GOOD.replace('"i":0', '"i":1').replace('"a"', '"b"')

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
        assert ours.figures == theirs.figures, told
        assert {rule: ours.violations.get(rule, 0) for rule in RULES} == theirs.violations, told
        assert list(ours.unassigned) == unassigned([gather(of_partition)[name]]), told
        for rule, found in sentences.items():
            examples = ours.examples.get(rule, ())
            assert set(examples) <= found, told
            assert len(examples) == min(theirs.violations[rule], EXAMPLES_MAX), told


# -- histories of chance -----------------------------------------------------------------------------------------------

IDS = "abcdef"
PARTITIONS = 150  # each is judged apart, so that one audit judges many histories
SHARED = 10  # of them told by the processes of two files


def story(rng: random.Random) -> list[Told]:
    """Anything that clients can tell of a partition of few records and few offsets, in any order."""
    unsent = rng.sample(IDS, len(IDS))
    told: list[Told] = []
    for _ in range(rng.randrange(1, 12)):
        client, consumer = rng.choice("pq"), rng.choice("cd")
        placed: list[list[object]] = [[rng.choice(IDS), rng.randrange(7)] for _ in range(rng.randrange(1, 5))]
        acknowledged = [[record, offset if rng.random() < 0.9 else -1] for record, offset in placed]
        sending = [[unsent.pop()] for _ in range(min(len(unsent), rng.randrange(1, 4)))]
        told.append(
            rng.choice(
                [
                    (client, "invoke" if sending else "info", "send", sending or [["a"]]),
                    (client, "ok", "send", acknowledged),
                    (client, rng.choice(("fail", "info")), "send", [[rng.choice(IDS)]]),
                    (consumer, "ok", "poll", placed),
                    (consumer, "ok", "poll", sorted(placed, key=lambda item: item[1])),
                    (consumer, "ok", rng.choice(("assign", "drained", "drained")), []),
                    (consumer, "ok", "assign", [[rng.randrange(4)]]),
                    ("admin", "ok", "log_start", [[rng.randrange(4)]])
                    if rng.random() < 0.3
                    else (consumer, "ok", "drained", []),
                    (consumer, "ok", "end_offset", [[rng.randrange(7)]]),
                ]
            )
        )
    return told


class Judged(NamedTuple):
    """Histories that one audit judged: what was told of each partition, and the verdict on it."""

    events: dict[str, list[Event]]
    verdicts: dict[str, PartitionVerdict]

    def verdict(self, topic: str) -> AuditVerdict:
        return AuditVerdict(tuple(verdict for verdict in self.verdicts.values() if verdict.topic == topic))

    def assert_same(self, topic: str) -> None:
        """The checker in memory says the same of the topic."""
        of_topic = {name: of for name, of in self.events.items() if topic_and_number(name)[0] == topic}
        assert_same(self.verdict(topic), {name: of for name, of in of_topic.items() if names(of)})


def judge(spark: SparkSession, directory: Path, files: dict[str, dict[str, list[Event]]], **asked: Any) -> Judged:
    """One audit of several files, each with the events of some partitions. The last line of each is not finished."""
    events: dict[str, list[Event]] = {}
    for file, partitions in files.items():
        told = enumerate(chain(*partitions.values()))
        write(directory / file, (event._replace(number=number) for number, event in told))
        with (directory / file).open("a") as written:
            written.write(SECOND[:30])
        for name, of_partition in partitions.items():
            named = (event._replace(process=f"{file}:{event.process}") for event in of_partition)
            events[name] = [*events.get(name, ()), *(named if len(files) > 1 else of_partition)]
    return Judged(events, {verdict.partition: verdict for verdict in audit(spark, directory, **asked).partitions})


@pytest.fixture(scope="module")
def by_polls(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """Histories of every kind, judged by what their consumers polled: an audit costs as much for one as for many."""
    rng = random.Random(1)
    chance = {f"chance-{n}": numbered(at(f"chance-{n}", story(rng))) for n in range(PARTITIONS)}
    others = {f"wrong-{n}": wrong(n)[0].events(f"wrong-{n}") for n in range(PARTITIONS)}
    for topic, histories in (("planted", PLANTED), ("harmless", HARMLESS)):
        for number, planted in enumerate(histories):
            moved = [event._replace(value=_moved(event.value, f"{topic}{number}")) for event in planted.events()]
            others[f"{topic}{number}-0"] = moved
    for number in range(SHARED):
        for partitions in (chance, others):
            partitions[f"shared-{number}"] = numbered(at(f"shared-{number}", [*polled(rng), *polled(rng)]))
    directory = tmp_path_factory.mktemp("polls")
    (directory / "notes.txt").write_text("not of the history")
    return judge(spark, directory, {"a.jsonl": chance, "b.jsonl": others})


def polled(rng: random.Random) -> list[Told]:
    return [("c", "ok", "poll", [[rng.choice(IDS), rng.randrange(3)]])]


@pytest.fixture(scope="module")
def by_store(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Judged, dict[str, Stored]]:
    """Histories judged by what is stored, and that."""
    rng = random.Random(2)
    chance = {f"chance-{n}": numbered(at(f"chance-{n}", story(rng))) for n in range(PARTITIONS)}
    stored = {name: {rng.randrange(7): rng.choice(IDS) for _ in range(rng.randrange(6))} for name in chance}
    tales = {f"honest-{n}": stored_tale(n) for n in range(PARTITIONS)}
    stored |= {name: {} if n % 3 == 0 else tale.log for n, (name, tale) in enumerate(tales.items())}
    events = chance | {name: tale.events(name) for name, tale in tales.items()}
    for number in range(3):
        vouched = Story()
        vouched.send("a", "b", "c")
        vouched.acknowledge(a=0, b=1, c=2)
        events[f"vouched{number}-0"] = [
            event._replace(value=_moved(event.value, f"vouched{number}")) for event in vouched.events
        ]
        stored[f"vouched{number}-0"] = {2: "c"}
    for name in ("open0-0", "open1-0"):
        begun = Story()
        begun.send("a", "b", "c")
        begun.acknowledge(a=0, b=2, c=3)
        events[name] = [event._replace(value=_moved(event.value, name[:-2])) for event in begun.events]
        stored[name] = {0: "a"}
    judged = judge(
        *(spark, tmp_path_factory.mktemp("stored"), {"history.jsonl": events}),
        topics=["chance", "honest", "open0", "open1", *(f"vouched{number}" for number in range(3))],
        stored=rows(spark, stored),
        identity=ID,
        log_starts={"vouched1-0": 1, "vouched2-0": 2},
        open_from={"open1-0": 1},
    )
    return judged, stored


def wrong(number: int) -> tuple[Tale, set[str]]:
    """An honest history with one wrong thing in two of three, and what a checker may say of it."""
    rng = random.Random(number)
    tale = honest(rng)
    broken = rng.choice(MUTATIONS)(tale, rng) if number % 3 else None
    return tale, broken or {"kept", "nothing proved"}


def stored_tale(number: int) -> Tale:
    return honest(random.Random(f"store {number}"))


def _moved(value: object, topic: str) -> object:
    """The same of another topic."""
    if isinstance(value, list):
        return [_moved(item, topic) for item in value]
    return value.replace("t-", f"{topic}-") if isinstance(value, str) else value


def test_polls_are_judged_as_in_memory(by_polls: Judged) -> None:
    assert all(by_polls.verdict("chance").violations.values()), "chance should break every rule"
    by_polls.assert_same("chance")


def test_who_was_not_assigned_is_named_as_in_memory(by_polls: Judged) -> None:
    """Who may have skipped records passed for one that had skipped none."""
    verdict = by_polls.verdict("chance")
    moved = {name for partition in verdict.partitions for name in partition.unassigned}  # compared above
    assert verdict.not_judged == [skips_not_judged(sorted(moved))]
    assert verdict.as_dict()["not_judged"] == verdict.not_judged


@pytest.mark.parametrize(("number", "planted"), list(enumerate(PLANTED)), ids=[planted.name for planted in PLANTED])
def test_planted_violations_are_caught_as_in_memory(by_polls: Judged, number: int, planted: Planted) -> None:
    name = f"planted{number}-0"
    found = by_polls.verdicts[name]
    assert planted.rule in (found.outcome, *found.broken)
    assert not found.ok
    assert_same(AuditVerdict((found,)), {name: [event for event in by_polls.events[name] if name in str(event.value)]})


@pytest.mark.parametrize(("number", "planted"), list(enumerate(HARMLESS)), ids=[planted.name for planted in HARMLESS])
def test_what_is_no_anomaly_is_kept_as_in_memory(by_polls: Judged, number: int, planted: Planted) -> None:
    """Row 19 of issue 11: acks=0, and acknowledgements without a place."""
    name = f"harmless{number}-0"
    found = by_polls.verdicts[name]
    assert (found.outcome, found.ok) == (planted.rule, True)
    assert_same(AuditVerdict((found,)), {name: by_polls.events[name]})


def test_one_wrong_thing_in_an_honest_history_is_caught_as_in_memory(by_polls: Judged) -> None:
    for partition in by_polls.verdict("wrong").partitions:
        _topic, number = topic_and_number(partition.partition)
        assert wrong(number)[1] & {partition.outcome, *partition.broken}, partition
    by_polls.assert_same("wrong")


def test_what_is_stored_is_judged_as_a_consumer_that_read_it(by_store: tuple[Judged, dict[str, Stored]]) -> None:
    judged, stored = by_store
    told = {
        name: numbered([*(event[2:] for event in events), *reading(name, stored[name])])
        for name, events in judged.events.items()
        if names(events) or stored[name]
    }
    judged._replace(events=told).assert_same("chance")


def test_what_is_stored_decides_whatever_was_polled_once(by_store: tuple[Judged, dict[str, Stored]]) -> None:
    judged, stored = by_store
    for partition in judged.verdict("honest").partitions:
        tale = stored_tale(topic_and_number(partition.partition)[1])
        promised = [offset for offset in tale.acknowledged().values() if offset >= tale.log_start]
        if stored[partition.partition]:
            assert partition.outcome in ("kept", "nothing proved"), partition
        elif promised:
            assert partition.broken["unseen"] >= len(promised)


def test_who_vouches_for_a_log_start_excuses_what_lay_below(by_store: tuple[Judged, dict[str, Stored]]) -> None:
    judged, _stored = by_store
    assert [judged.verdicts[f"vouched{n}-0"].broken for n in range(3)] == [{"lost-write": 2}, {"lost-write": 1}, {}]
    assert judged.verdicts["vouched2-0"].ok


def test_what_lies_behind_an_open_transaction_is_not_judged(by_store: tuple[Judged, dict[str, Stored]]) -> None:
    judged, _stored = by_store
    assert judged.verdicts["open0-0"].broken == {"unseen": 2}
    found = judged.verdicts["open1-0"]
    assert (found.outcome, found.unjudged, found.read, found.open_from) == ("not judged", 2, 1, 1)


def test_more_readers_than_can_be_told_apart_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    story = Story()
    story.send("a")
    story.acknowledge(a=0)
    for number in range(63):
        story.read_to_the_end(("a", 0), process=f"reader-{number}")
    with pytest.raises(PipelineError, match="63 consumers read t-0 to the end; the audit judges at most 62"):
        audit(spark, write(tmp_path / "history.jsonl", story.events))


def test_ids_of_histories_are_those_of_what_is_stored_whatever_bytes_keys_are(spark: SparkSession) -> None:
    keys = [None, b"", "hä".encode(), b"\xff\xfe", b"a\xed\xa0\x80b", b"\xf0\x9f\x98"]
    records = [(key, value) for key in keys for value in (None, b"", b"\xff")]
    stored = spark.createDataFrame(records, "key BINARY, value BINARY").selectExpr(f"{IDENTITY} AS id").collect()
    assert [row.id for row in stored] == [record_id(*record) for record in records]


def test_files_of_several_processes_are_one_history(by_polls: Judged) -> None:
    by_polls.assert_same("shared")
    processes = {event.process for event in by_polls.events["shared-0"]}
    assert processes == {"a.jsonl:c", "b.jsonl:c"}
    examples = by_polls.verdict("shared").examples.values()
    assert {sentence.partition("jsonl:")[0][-2:] for of_rule in examples for sentence in of_rule} >= {"a.", "b."}


# -- a real history ----------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_cluster_whose_leader_was_killed_is_judged_the_same_from_topics_and_from_files(
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
        write_transactions(cluster, "transactions", history)
    in_memory = check(history.events)
    assert in_memory.ok
    topics = ["t", "transactions"]
    by_topics = audit(spark, path, topics, bootstrap_servers=cluster.bootstrap_servers)
    by_logs = audit(spark, path, topics, stored=stored_in_logs(spark, [str(cluster.layout.directory)], topics))
    for verdict in (by_topics, by_logs):
        assert verdict.ok, verdict.examples
        assert verdict.figures == in_memory.figures
    with pytest.raises(PipelineError, match="nothing-such"):
        audit(spark, path, ["nothing-such"], bootstrap_servers=cluster.bootstrap_servers)


def write_transactions(cluster: LocalCluster, topic: str, history: History) -> None:
    """Some that are committed, some that are aborted, and what a read_committed consumer sees of them."""
    name = f"{topic}-0"
    create_topic(cluster.bootstrap_servers, topic, 1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(60)
    read = []
    for number in range(6):
        written: list[Message] = []
        producer.begin_transaction()
        for value in (b"%d a" % number, b"%d b" % number):
            history.append("transactional", "invoke", "send", [[name, record_id(None, value)]])
            producer.produce(topic, value, on_delivery=lambda _, message, written=written: written.append(message))
        assert producer.flush(60) == 0
        told = [[name, record_id(None, message.value()), message.offset()] for message in written]
        if number % 2:
            producer.abort_transaction(60)
            history.append("transactional", "fail", "send", [item[:2] for item in told])
        else:
            producer.commit_transaction(60)
            history.append("transactional", "ok", "send", told)
            read += told
    history.append("consumer", "ok", "assign", [[name, 0]])
    history.append("consumer", "ok", "poll", read)
    history.append("consumer", "ok", "drained", [name])


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


@pytest.mark.long
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
    archive(topics=[created], to=lake, bootstrap_servers=cluster.bootstrap_servers)
    asked = ("pipeline", "audit", "--history", history, "--topics", created)
    exit_code, printed = minikafka(*asked, "--from-log-start")
    assert exit_code == 0, printed
    assert "202 acknowledged records: none lost, duplicated or reordered" in printed
    assert max(map(len, printed.splitlines())) <= 80
    exit_code, printed = minikafka(*asked, "--polls")
    assert exit_code == 1, printed
    assert "not judged: no reader that read to the end looked for 202 of 202 acknowledged records" in printed

    # A record more that was acknowledged, and that nobody can find.
    count = len(history.read_text().splitlines())
    item = [f"{created}-0", "gone#00000000"]
    with history.open("a") as file:
        file.write(Event(count, 0, "producer", "invoke", "send", [item]).to_json() + "\n")
        file.write(Event(count + 1, 0, "producer", "ok", "send", [[*item, 0]]).to_json() + "\n")
    exit_code, printed = minikafka(*asked, "--lake", lake)
    assert exit_code == 1, printed
    assert f"{created}-0: gone#00000000 was acknowledged at 0, and the topics" in printed


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


# -- what cannot be judged ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD + "what?\n" + SECOND, r"history.jsonl: not an event of a history: 'what\?'"),
        pytest.param(
            GOOD + '{"a":1}\n',
            r"history.jsonl: not an event of a history: JSON without the fields i, p, type and f",
            marks=pytest.mark.long,
        ),
        pytest.param(
            GOOD + SECOND.replace('"i":1', '"i":2'),
            r"history.jsonl: it holds 2 events, and the last is number 2",
            marks=pytest.mark.long,
        ),
        (GOOD + GOOD, r"history.jsonl: it holds 2 events, and the last is number 0: lines are missing or there twice"),
        (GOOD + SECOND.replace('"b"', '"a"'), r"a was sent 2 times to t-0: a history must send each id once"),
        (GOOD.replace("invoke", "ok"), r'history.jsonl: event 0 cannot be judged: \["t-0","a"\]'),
        pytest.param(
            GOOD.replace("invoke", "ok").replace("send", "poll").replace('"a"', '"a",-1'),
            r'history.jsonl: event 0 cannot be judged: \["t-0","a","-1"\]',
            marks=pytest.mark.long,
        ),
        pytest.param(
            GOOD.replace("invoke", "ok").replace("send", "assign").replace('"a"', "-1001"),
            r'history.jsonl: event 0 cannot be judged: \["t-0","-1001"\]',
            marks=pytest.mark.long,
        ),
        pytest.param(
            GOOD.replace("t-0", "t"), r'history.jsonl: event 0 cannot be judged: \["t","a"\]', marks=pytest.mark.long
        ),
        pytest.param(
            GOOD.replace('[["t-0","a"]]', '"a word"'),
            r"history.jsonl: event 0 cannot be judged: ",
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_damaged_history_is_refused_in_a_line(spark: SparkSession, tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(text)
    with pytest.raises(PipelineError, match=message) as raised:
        audit(spark, path)
    assert "\n" not in str(raised.value)


def test_what_is_not_there_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"history .*nowhere not found"):
        audit(spark, tmp_path / "nowhere")
    with pytest.raises(PipelineError, match=r"no file name ends in \.jsonl"):
        audit(spark, tmp_path)
    (tmp_path / "history.jsonl").write_text(GOOD)
    with pytest.raises(PipelineError, match="the history contains no record sent to topic other"):
        audit(spark, tmp_path, ["other"])
    with pytest.raises(PipelineError, match="nothing_such"):
        audit(spark, tmp_path, ["t"], stored=rows(spark, {"t-0": {0: "a"}}), identity="nothing_such")


def names(told: list[Event]) -> bool:
    """Whether a history says something of a partition that a verdict can show."""
    return any(event.function not in ("drained", "log_start") and event.type != "info" for event in told)
