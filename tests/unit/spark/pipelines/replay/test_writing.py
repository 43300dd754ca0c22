from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark import TaskContext
from pyspark.sql.types import StructType

from minikafka.spark.brokers import Brokers
from minikafka.spark.options import ClientSettings, SinkOptions
from minikafka.spark.pipelines.replay.writing import Failed, ReplayedTopic, ReplayWriter, replay_id

WRITER = ReplayWriter(SinkOptions(ClientSettings("127.0.0.1:1"), "orders"))


@pytest.fixture
def second_attempt() -> Iterator[None]:
    TaskContext._getOrCreate()._attemptNumber = 1
    yield
    TaskContext._taskContext = None


@pytest.mark.usefixtures("second_attempt")
def test_a_task_is_not_repeated() -> None:
    """What it wrote before it was lost would be in the topic twice; only the next replay can see it."""
    with pytest.raises(RuntimeError, match="run the same command again to resume"):
        WRITER.write(iter(()))


def test_a_failure_is_told_by_the_driver() -> None:
    WRITER.commit([None])
    with pytest.raises(RuntimeError, match=r"^MESSAGE_TOO_LARGE: a row of 3 GiB$"):
        WRITER.commit([None, Failed("MESSAGE_TOO_LARGE: a row of 3 GiB")])


def test_a_request_may_be_as_large_as_the_largest_topics_take() -> None:
    """Nobody can give a replay a limit of its own."""
    options = {"topic": "orders", "compression": "none", **Brokers("127.0.0.1:1").options}
    settings = ReplayedTopic(options).writer(StructType(), overwrite=False).options.client
    assert settings.max_request_bytes == settings.buffer_bytes


def test_the_id_is_of_what_is_replayed() -> None:
    assert replay_id("lake", "a") == replay_id("lake", "a") != replay_id("lakea", "") != replay_id("lake", "b")
    assert "/" not in replay_id("lake")
