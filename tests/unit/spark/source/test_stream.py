"""How micro-batches are planned, on a cluster that stands in a table: a checkpoint is a list of JSON texts here."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from minikafka.model import TopicPartition
from minikafka.spark.options import SourceOptions
from minikafka.spark.source import stream
from minikafka.spark.source.losses import DataLossError
from minikafka.spark.source.offsets import UNRESOLVED
from minikafka.spark.source.stream import TopicStreamReader

A0, A1, A2 = (TopicPartition("a", index) for index in range(3))


class Query:
    """Calls a reader as Spark does; ``restart`` is what a crash leaves: the checkpoint and nothing else."""

    def __init__(self, logs: Any, monkeypatch: pytest.MonkeyPatch, **options: str) -> None:
        self.logs, self.now_ms = logs, 0
        self.options = {"kafka.bootstrap.servers": "h:1", "subscribe": "a", "startingOffsets": "earliest"} | options
        monkeypatch.setattr(stream, "cluster_of", lambda settings: logs)
        monkeypatch.setattr(stream, "_now_ms", lambda: self.now_ms)
        self.offsets: list[str] = []  # the write-ahead log
        self.restart()

    def restart(self) -> None:
        self.reader = TopicStreamReader(SourceOptions.parse(self.options, is_streaming=True))

    def plan(self) -> list[tuple[int, int, int]] | None:
        """The ranges of the next batch, or None when there is nothing to do."""
        self.now_ms += 1_000
        start = json.loads(self.offsets[-1]) if self.offsets else self.reader.initialOffset()
        end = json.dumps(self.reader.latestOffset(start, self.reader.getDefaultReadLimit()))
        if end == json.dumps(start):
            return None
        self.offsets.append(end)
        return self.again()

    def again(self) -> list[tuple[int, int, int]]:
        """The ranges of the newest batch."""
        start = json.loads(self.offsets[-2]) if len(self.offsets) > 1 else UNRESOLVED
        parts: Any = self.reader.partitions(start, json.loads(self.offsets[-1]))
        return [(part.tp.partition, part.start.offset, part.end.offset) for part in parts]


@pytest.fixture
def logs(logs: Any) -> Any:
    logs.put(A0, 0, (0, 10))
    logs.put(A1, 0, (0, 5))
    return logs


def test_a_batch_follows_the_one_before(logs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(logs, monkeypatch)
    assert query.plan() == [(0, 0, 10), (1, 0, 5)]
    assert query.plan() is None
    logs.put(A1, 0, (0, 7))
    assert query.plan() == [(1, 5, 7)]
    assert query.plan() is None
    assert query.reader.reportLatestOffset() == {"a": {"0": 10, "1": 7}, "@epochs": {"a": {"0": 0, "1": 0}}}


def test_the_first_batch_pins_down_what_latest_was(logs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(logs, monkeypatch, startingOffsets="latest")
    assert query.plan() == []
    logs.put(A0, 0, (0, 13))
    query.restart()
    assert query.again() == []
    assert query.plan() == [(0, 10, 13)]


def test_a_batch_is_repeated_as_it_was_by_another_process(logs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(logs, monkeypatch, minPartitions="4")
    planned = query.plan()
    logs.put(A0, 7, (0, 20))
    query.restart()
    assert query.again() == planned


def test_partitions_that_appear_begin_at_their_start(logs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(logs, monkeypatch, startingOffsets="latest")
    query.plan()
    logs.put(A2, 0, (0, 4))
    assert query.plan() == [(2, 0, 4)]
    assert query.plan() is None


def test_one_that_appears_without_its_start_is_a_loss(logs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(logs, monkeypatch)
    query.plan()
    logs.put(A2, 3, (0, 4))
    with pytest.raises(DataLossError, match="a-2 appeared while the query ran, and its log begins at offset 3 already"):
        query.plan()


def test_one_that_was_deleted_is_a_loss(logs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(logs, monkeypatch)
    query.plan()
    del logs.logs[A1]
    with pytest.raises(DataLossError, match="a-1, read up to offset 5, was deleted"):
        query.plan()
    query = Query(logs, monkeypatch, failOnDataLoss="false")
    logs.put(A1, 0, (0, 5))
    query.plan()
    del logs.logs[A1]
    assert query.plan() == []
    assert query.plan() is None
    logs.put(A1, 0, (0, 2))
    assert query.plan() == [(1, 0, 2)]


def test_records_that_an_unclean_election_lost(logs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(logs, monkeypatch, failOnDataLoss="false")
    query.plan()
    logs.put(A0, 0, (0, 8), (1, 30))
    assert query.plan() == [(0, 8, 30)], "what came in place of them"
    assert query.plan() is None
    query.options["failOnDataLoss"] = "true"
    query.restart()
    logs.put(A0, 0, (0, 8), (1, 20), (2, 40))
    with pytest.raises(DataLossError, match=r"a-0 was read up to offset 30 \(epoch 1\)"):
        query.plan()


def test_a_clean_change_of_leaders_makes_no_batch(logs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(logs, monkeypatch)
    query.plan()
    logs.put(A0, 0, (0, 10), (1, 10))
    assert query.plan() is None
    logs.put(A0, 0, (0, 10), (1, 12))
    assert query.plan() == [(0, 10, 12)]


def test_a_topic_made_anew_is_known_by_its_id_though_its_log_looks_the_same(
    logs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.ids = {"a": "1"}
    query = Query(logs, monkeypatch)
    query.plan()
    assert json.loads(query.offsets[-1])["@ids"] == {"a": "1"}
    logs.ids = {"a": "2"}
    logs.put(A0, 0, (0, 25))
    query.restart()
    with pytest.raises(DataLossError, match="topic 'a', read up to offsets 10, 5, was deleted and created again"):
        query.plan()
    query.options["failOnDataLoss"] = "false"
    query.restart()
    assert query.plan() == [(0, 0, 25), (1, 0, 5)], "from its beginning"
    assert query.plan() is None
    query.restart()
    assert query.again() == [(0, 0, 25), (1, 0, 5)]


def test_a_broker_that_is_behind_is_not_believed(logs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    logs.ids = {"a": "2"}
    query = Query(logs, monkeypatch)
    query.plan()
    answers = iter(["1"])
    monkeypatch.setattr(logs, "topic_ids", lambda topics: {"a": next(answers, "2")})
    logs.put(A0, 0, (0, 12))
    assert query.plan() == [(0, 10, 12)]
    assert json.loads(query.offsets[-1])["@ids"] == {"a": "2"}


@pytest.mark.parametrize("text", ['{"a": {"0": 10, "1": 5}}', '{"a": {"0": 10, "1": 5}, "@epochs": {"a": {"0": 0}}}'])
def test_offsets_without_ids_are_continued(logs: Any, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Those of Spark's own connector, and of a version that wrote no ids."""
    logs.ids = {"a": "1"}
    query = Query(logs, monkeypatch)
    query.offsets = [text]
    assert query.plan() is None
    logs.put(A0, 0, (0, 12))
    assert query.plan() == [(0, 10, 12)]
    assert json.loads(query.offsets[-1])["@ids"] == {"a": "1"}


def test_available_now_ends_where_the_logs_ended(logs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(logs, monkeypatch, maxOffsetsPerTrigger="9", minOffsetsPerTrigger="9")
    query.reader.prepareForTriggerAvailableNow()
    logs.put(A0, 0, (0, 1000))
    assert query.plan() == [(0, 0, 6), (1, 0, 3)]
    assert query.plan() == [(0, 6, 10), (1, 3, 5)]
    assert query.plan() is None


def test_latest_and_available_now_is_nothing(logs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(logs, monkeypatch, startingOffsets="latest")
    query.reader.prepareForTriggerAvailableNow()
    logs.put(A0, 0, (0, 1000))
    assert query.plan() == []
    assert query.plan() is None


def test_what_spark_is_told_of_limits(logs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for options, limit in (
        ({}, ReadAllAvailable()),
        ({"minOffsetsPerTrigger": "3"}, ReadMinRows(3)),
        ({"minOffsetsPerTrigger": "3", "maxOffsetsPerTrigger": "5"}, ReadMaxRows(5)),
    ):
        assert Query(logs, monkeypatch, **options).reader.getDefaultReadLimit() == limit


def test_few_records_wait(logs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(logs, monkeypatch, minOffsetsPerTrigger="10", maxTriggerDelay="5s")
    assert query.plan() == [(0, 0, 10), (1, 0, 5)]
    logs.put(A0, 0, (0, 19))
    assert [query.plan() for _ in range(4)] == [None] * 4
    assert query.plan() == [(0, 10, 19)], "long enough"
    logs.put(A0, 0, (0, 29))
    assert query.plan() == [(0, 19, 29)], "enough"


def test_a_reader_can_be_pickled(logs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Query(logs, monkeypatch).reader
    assert pickle.loads(pickle.dumps(reader)).getDefaultReadLimit() == ReadAllAvailable()


steps = st.lists(
    st.tuples(st.sampled_from(["write", "plan", "restart", "grow", "elect"]), st.integers(0, 2), st.integers(1, 50)),
    max_size=20,
)


@given(steps, st.sampled_from(["earliest", "latest"]), st.none() | st.integers(20, 60))
@settings(deadline=None)
def test_every_offset_is_in_one_batch(
    logs_class: type[Any], found: list[tuple[str, int, int]], starting: str, limit: int | None
) -> None:
    """Whatever is written, however often the driver dies: each offset from where the query began on, once, in order."""
    logs = logs_class()
    logs.put(A0, 0, (0, 10))
    options = {"startingOffsets": starting} | ({} if limit is None else {"maxOffsetsPerTrigger": str(limit)})
    with pytest.MonkeyPatch.context() as monkeypatch:
        query = Query(logs, monkeypatch, **options)
        read = {0: 10 if starting == "latest" else 0}
        newest: list[Any] = []
        for what, index, size in [("plan", 0, 0), *found, *[("plan", 0, 0)] * 60]:
            tp = TopicPartition("a", min(index, len(logs.logs) - 1))
            first, epochs = logs.logs[tp]
            epoch, end = epochs[-1]
            if what == "write":
                logs.put(tp, first, *epochs[:-1], (epoch, end + size))
            elif what == "elect":
                logs.put(tp, first, *epochs, (epoch + 1, end))
            elif what == "grow" and len(logs.logs) < 3:
                logs.put(TopicPartition("a", len(logs.logs)), 0, (0, size))
            elif what == "restart":
                query.restart()
                assert query.again() == newest
            elif what == "plan" and (planned := query.plan()) is not None:
                newest = planned
                for partition, start, stop in planned:
                    assert start == read.get(partition, 0)
                    read[partition] = stop
        assert query.plan() is None
        for tp, (_, epochs) in logs.logs.items():
            assert read.get(tp.partition, 0) == epochs[-1][1]
