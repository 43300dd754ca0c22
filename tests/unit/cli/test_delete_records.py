"""Kafka's JSON with the offsets to delete up to."""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.cli.delete_records import TO_LATEST, read_offsets
from minikafka.model import TopicPartition


def row(topic: Any = "t", partition: Any = 0, offset: Any = 5) -> dict[str, Any]:
    return {"topic": topic, "partition": partition, "offset": offset}


def test_offsets_by_partition() -> None:
    document = {"partitions": [row(), row(partition=1, offset=-1)], "version": 1}
    assert read_offsets(document) == {TopicPartition("t", 0): 5, TopicPartition("t", 1): TO_LATEST}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], 'it has no list "partitions"'),
        ({"partitions": []}, 'it has no list "partitions"'),
        ({"partitions": [row()], "version": 2}, "version 2; version 1 is understood"),
        ({"partitions": [row(), row()]}, "t-0 is named twice"),
        ({"partitions": ["t"]}, '"t" is not {"topic"'),
        ({"partitions": [row(offset=-2)]}, '"offset": -2} is not'),
        ({"partitions": [row(partition=True)]}, "is not"),
        ({"partitions": [row(topic=None)]}, "is not"),
    ],
)
def test_what_is_wrong_is_named(document: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("{", r"\{").replace("-", r"\-")):
        read_offsets(document)
