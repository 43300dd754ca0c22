"""A cluster that planning can ask, as it stands in a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import OffsetAndEpoch, TopicPartition


class Logs:
    """``logs[where] = (first offset, [(epoch, its end), ...], {timestamp: offset})``; counts what it is asked."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, tuple[int, list[tuple[int, int]]]] = {}
        self.times: dict[TopicPartition, dict[int, int]] = {}
        self.ids: dict[str, str] = {}
        self.stable: dict[TopicPartition, int] = {}  # before an open transaction
        self.asked = 0

    def put(self, tp: TopicPartition, first: int, *epochs: tuple[int, int]) -> None:
        self.logs[tp] = (first, list(epochs))

    def topics(self) -> list[str]:
        return sorted({tp.topic for tp in self.logs})

    def partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        self.asked += 1
        for topic in topics:
            if topic not in self.topics():
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic!r} not found; create it first")
        return sorted(tp for tp in self.logs if tp.topic in topics)

    def offsets(self, partitions: Iterable[TopicPartition], at: int) -> dict[TopicPartition, OffsetAndEpoch]:
        self.asked += 1
        found = {}
        for tp in partitions:
            if tp not in self.logs:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {tp} not found")
            first, epochs = self.logs[tp]
            newest, end = epochs[-1]
            end = self.stable.get(tp, end)
            found[tp] = OffsetAndEpoch(end, newest) if at == -1 else OffsetAndEpoch(first, epochs[0][0])
        return found

    def high_watermarks(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self.logs[tp][1][-1][1] for tp in partitions}

    def offsets_for_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndEpoch]:
        found = {}
        for tp, wanted in times_ms.items():
            later = [offset for time_ms, offset in self.times.get(tp, {}).items() if time_ms >= wanted]
            if later:
                found[tp] = OffsetAndEpoch(min(later), self.logs[tp][1][-1][0])
        return found

    def truncated(self, ends: Mapping[TopicPartition, OffsetAndEpoch]) -> dict[TopicPartition, OffsetAndEpoch]:
        self.asked += 1
        found = {}
        for tp, (offset, epoch) in ends.items():
            known = [item for item in self.logs[tp][1] if item[0] <= epoch]
            agreed = OffsetAndEpoch(known[-1][1], known[-1][0]) if known else OffsetAndEpoch(-1, -1)
            if epoch > self.logs[tp][1][-1][0]:
                agreed = OffsetAndEpoch(-1, -1)
            if epoch != -1 and agreed.offset < offset:
                found[tp] = agreed
        return found

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        return {topic: self.ids.get(topic, "") for topic in topics if topic in self.topics()}

    def replaced(self, topic_ids: Mapping[str, str]) -> dict[str, str]:
        return {topic: self.ids.get(topic, "") for topic, known in topic_ids.items() if self.ids.get(topic) != known}


@pytest.fixture
def logs() -> Logs:
    return Logs()


@pytest.fixture(scope="session")
def logs_class() -> type[Logs]:
    """For tests that need many of them."""
    return Logs
