"""Which partitions, and where they begin and end."""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.errors import KafkaError
from minikafka.model import TopicPartition
from minikafka.spark.options import (
    AssignedPartitions,
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    ClientSettings,
    Edge,
    MatchingTopics,
    NamedTopics,
    OptionError,
    SourceOptions,
)
from minikafka.spark.source import batch
from minikafka.spark.source.bounds import chosen_partitions, ending_offsets, remaining_partitions, starting_offsets
from minikafka.spark.source.ends import EndsOfLogs
from minikafka.spark.source.losses import DataLossError

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


@pytest.fixture
def cluster(logs: Any) -> Any:
    logs.put(A0, 10, (1, 100))
    logs.put(A1, 0, (2, 50))
    logs.put(B0, 0, (0, 7))
    logs.times = {A0: {1000: 10, 2000: 60}, A1: {1500: 0}}
    return logs


def start(cluster: Any, spec: Any, *, latest: bool = False, fail: bool = True) -> Any:
    return starting_offsets(cluster, spec, [A0, A1], latest_when_no_timestamp=latest, fail_on_data_loss=fail)


def end(cluster: Any, spec: Any, *, fail: bool = True) -> Any:
    return ending_offsets(cluster, spec, [A0, A1], fail_on_data_loss=fail)


def test_topics_are_chosen_by_name_by_pattern_or_by_partition(cluster: Any) -> None:
    assert chosen_partitions(cluster, NamedTopics(("b", "a"))) == [A0, A1, B0]
    assert chosen_partitions(cluster, MatchingTopics("[ac]")) == [A0, A1]
    assert chosen_partitions(cluster, MatchingTopics("x.*")) == []
    assert chosen_partitions(cluster, MatchingTopics("^")) == [A0, A1, B0], "a part of the name is enough"
    assert chosen_partitions(cluster, AssignedPartitions((B0, A1))) == [A1, B0]


def test_partitions_that_are_missing(cluster: Any) -> None:
    with pytest.raises(KafkaError, match="topic 'c' not found; create it first"):
        chosen_partitions(cluster, NamedTopics(("a", "c")))
    with pytest.raises(KafkaError, match="partition a-2 not found: topic 'a' has 2; correct the option 'assign'"):
        chosen_partitions(cluster, AssignedPartitions((TopicPartition("a", 2),)))


def test_a_stream_goes_on_with_the_partitions_that_remain(cluster: Any) -> None:
    assert remaining_partitions(cluster, NamedTopics(("a", "c"))) == [A0, A1]
    assert remaining_partitions(cluster, AssignedPartitions((A1, TopicPartition("a", 7), TopicPartition("c", 0)))) == [
        A1
    ]


@pytest.mark.parametrize("times", [2, 1000])
def test_brokers_that_disagree_on_what_remains_are_asked_again_for_a_while(
    cluster: Any, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    partitions = cluster.partitions

    def unknown_at_first(topics: Any) -> Any:
        return partitions(["gone"]) if len(waits) < times else partitions(topics)

    monkeypatch.setattr(cluster, "partitions", unknown_at_first)
    if times == 2:
        assert remaining_partitions(cluster, NamedTopics(("a",))) == [A0, A1]
        assert len(waits) == 2
    else:
        with pytest.raises(KafkaError, match="topic 'gone' not found"):
            remaining_partitions(cluster, NamedTopics(("a",)))
        assert waits == sorted(waits) != []


def test_edges_and_offsets(cluster: Any) -> None:
    assert start(cluster, Edge.EARLIEST) == {A0: (10, 1), A1: (0, 2)}
    assert start(cluster, Edge.LATEST) == {A0: (100, 1), A1: (50, 2)}
    assert start(cluster, AtOffsets({A0: 20, A1: -1})) == {A0: (20, 1), A1: (50, 2)}
    assert end(cluster, AtOffsets({A0: 20, A1: -1})) == {A0: (20, 1), A1: (50, 2)}


def test_every_partition_must_be_named_and_no_other(cluster: Any) -> None:
    with pytest.raises(OptionError, match="option 'startingOffsets' says nothing of a-1; give every partition"):
        start(cluster, AtOffsets({A0: 20}))
    with pytest.raises(
        OptionError, match="option 'endingOffsets' names b-0, which this query does not read; remove it"
    ):
        end(cluster, AtOffsets({A0: 20, A1: 5, B0: 0}))
    with pytest.raises(OptionError, match="option 'startingOffsetsByTimestamp' says nothing of a-0"):
        start(cluster, AtTimestamps({A1: 5}))


@pytest.mark.parametrize(("offset", "nearest"), [(3, 10), (101, 100)])
def test_offsets_outside_the_log(cluster: Any, offset: int, nearest: int) -> None:
    spec = AtOffsets({A0: offset, A1: 0})
    with pytest.raises(
        DataLossError, match=f"starting offset {offset} of a-0 is outside its log, which has offsets 10 to"
    ):
        start(cluster, spec)
    assert start(cluster, spec, fail=False)[A0].offset == nearest
    with pytest.raises(DataLossError, match="ending offset"):
        end(cluster, spec)


def test_an_offset_behind_an_open_transaction_is_in_the_log(cluster: Any) -> None:
    cluster.stable[A0] = 60
    assert start(cluster, Edge.LATEST)[A0] == (60, 1)
    assert start(cluster, AtOffsets({A0: 80, A1: 0}))[A0] == (80, 1), "its records come when the transaction ends"
    with pytest.raises(
        DataLossError, match="starting offset 101 of a-0 is outside its log, which has offsets 10 to 100"
    ):
        start(cluster, AtOffsets({A0: 101, A1: 0}))


def test_a_batch_behind_an_open_transaction_is_empty(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.stable[A0] = 60
    monkeypatch.setattr(batch, "cluster_of", lambda _settings: cluster)

    def ranges(end: Any) -> list[Any]:
        options = SourceOptions(
            ClientSettings("localhost:9092"), NamedTopics(("a",)), AtOffsets({A0: 80, A1: 0}), end=end
        )
        return [(each.tp, each.size) for each in batch.TopicReader(options).partitions()]

    assert ranges(Edge.LATEST) == [(A1, 50)]
    with pytest.raises(OptionError, match="begin a-0 at offset 80 and end it at 60"):
        ranges(AtOffsets({A0: 60, A1: 50}))


def test_a_timestamp_starts_or_ends_each_partition_at_the_first_record_of_that_time(cluster: Any) -> None:
    assert start(cluster, AtTimestamp(1200)) == {A0: (60, 1), A1: (0, 2)}
    assert start(cluster, AtTimestamps({A0: 900, A1: 1500})) == {A0: (10, 1), A1: (0, 2)}
    message = r"option 'startingTimestamp': a-1 has no record of 1800 \(1970-01-01T00:00:01\.800\+00:00\) or later"
    with pytest.raises(OptionError, match=message):
        start(cluster, AtTimestamp(1800))
    assert start(cluster, AtTimestamp(1800), latest=True) == {A0: (60, 1), A1: (50, 2)}
    assert end(cluster, AtTimestamp(1800)) == {A0: (60, 1), A1: (50, 2)}


def test_ends_are_asked_for_no_more_often_than_is_useful(cluster: Any) -> None:
    ends = EndsOfLogs(NamedTopics(("a",)), poll_interval_ms=50, metadata_interval_ms=1_000)
    assert ends.now(cluster, 0).ends[A0].offset == 100
    asked = cluster.asked
    cluster.put(A0, 10, (1, 101))
    assert ends.now(cluster, 49).ends[A0].offset == 100
    assert cluster.asked == asked
    assert ends.now(cluster, 49, is_new=True).ends[A0].offset == 101
    cluster.put(TopicPartition("a", 2), 0, (0, 5))
    assert len(ends.now(cluster, 200).ends) == 2
    assert len(ends.now(cluster, 1_049).ends) == 3
    del cluster.logs[A0]
    cluster.put(A1, 0, (2, 51))
    assert list(ends.now(cluster, 3_000).ends) == [A1, TopicPartition("a", 2)]


def test_a_partition_that_is_deleted_between_two_questions_is_left_out(cluster: Any) -> None:
    ends = EndsOfLogs(NamedTopics(("a",)), poll_interval_ms=50, metadata_interval_ms=1_000)
    assert len(ends.now(cluster, 0).ends) == 2
    del cluster.logs[A0]
    assert list(ends.now(cluster, 60).ends) == [A1]
