"""The audit on Spark and the checker in memory come to the same verdict on the same history."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from minikafka.ledger.checker import RULES, check, gather
from minikafka.ledger.events import Event, merge, read_history
from minikafka.spark.pipelines.audit import AuditVerdict, audit
from minikafka.spark.pipelines.audit.stored import READER
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


# -- histories that hypothesis makes up ---------------------------------------------------------------------------------

IDS = st.sampled_from("abcdef")
OFFSETS = st.integers(0, 6)
PLACED = st.lists(st.tuples(IDS, OFFSETS).map(list), min_size=1, max_size=4)
EVENTS = st.one_of(
    st.tuples(st.sampled_from("pq"), st.just("invoke"), st.just("send"), st.lists(IDS.map(lambda i: [i]), min_size=1)),
    st.tuples(st.sampled_from("pq"), st.just("ok"), st.just("send"), PLACED),
    st.tuples(st.sampled_from("pq"), st.sampled_from(("fail", "info")), st.just("send"), st.just([["a"]])),
    st.tuples(st.sampled_from("cd"), st.just("ok"), st.just("poll"), PLACED),
    st.tuples(st.sampled_from("cd"), st.just("ok"), st.just("assign"), st.just([])),
    st.tuples(st.sampled_from("cd"), st.just("ok"), st.just("drained"), st.just([])),
    st.tuples(st.sampled_from("cd"), st.just("ok"), st.just("end_offset"), OFFSETS.map(lambda o: [[o]])),
)


def sent_once(told: list[Told]) -> list[Told]:
    """Without the sends that the checker would refuse."""
    seen: set[object] = set()
    kept = []
    for process, kind, function, items in told:
        if kind == "invoke":
            items = [item for n, item in enumerate(items) if item[0] not in seen and item not in items[:n]]
            seen.update(item[0] for item in items)
        if items or function in ("assign", "drained"):
            kept.append((process, kind, function, items))
    return kept


STORIES = st.lists(EVENTS, min_size=1, max_size=10).map(sent_once).filter(bool)
SHELVES = st.dictionaries(OFFSETS, IDS, max_size=6)
FEW = settings(
    max_examples=2,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)
PER_AUDIT = 150  # partitions: each is judged apart, so that one audit judges many histories


@FEW
@given(st.lists(STORIES, min_size=PER_AUDIT, max_size=PER_AUDIT))
def test_polls_are_judged_as_in_memory(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, stories: list[list[Told]]
) -> None:
    told = {f"t-{n}": at(f"t-{n}", story) for n, story in enumerate(stories)}
    path = write(tmp_path_factory.mktemp("audit") / "h.jsonl", numbered(sum(told.values(), [])))
    assert_same(audit(spark, path), {name: numbered(of) for name, of in told.items() if names(of)})


@FEW
@given(st.lists(st.tuples(STORIES, SHELVES), min_size=PER_AUDIT, max_size=PER_AUDIT))
def test_what_is_stored_is_judged_as_a_consumer_that_read_it(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, stories: list[tuple[list[Told], Stored]]
) -> None:
    told = {f"t-{n}": at(f"t-{n}", story) for n, (story, _) in enumerate(stories)}
    stored = {f"t-{n}": shelf for n, (_, shelf) in enumerate(stories)}
    path = write(tmp_path_factory.mktemp("audit") / "h.jsonl", numbered(sum(told.values(), [])))
    verdict = audit(spark, path, stored=rows(spark, stored), identity=ID)
    assert_same(
        verdict,
        {name: numbered(of + reading(name, stored[name])) for name, of in told.items() if names(of) or stored[name]},
    )


def names(told: list[tuple[str, str, str, object]]) -> bool:
    """Whether a history says something of a record or its end, not only of consumers and offsets."""
    return any((function, kind) not in (("assign", "ok"), ("end_offset", "ok"), ("send", "info")) for _, kind, function, _ in told)
