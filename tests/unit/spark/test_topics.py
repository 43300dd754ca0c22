"""Topics as jobs ask for them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from minikafka.errors import ErrorCode, KafkaError
from minikafka.spark.topics import partitions_of


class _Admin:
    async def describe_topics(self, topics: list[str]) -> list[Any]:
        return [SimpleNamespace(name=name, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for name in topics]

    async def list_topics(self) -> list[Any]:
        return [SimpleNamespace(name=name) for name in ("lines", "words")]


@pytest.mark.parametrize(
    ("topic", "hint"),
    [("lnes", "did you mean lines?"), ("payments", "create it first, with: minikafka topic create payments")],
)
def test_a_topic_that_is_misspelt_is_not_to_be_created(topic: str, hint: str) -> None:
    """Who reads a topic does not want an empty one."""
    with pytest.raises(KafkaError) as told:
        asyncio.run(partitions_of(cast(Any, _Admin()), [topic]))
    assert told.value.message == f"topic {topic!r} not found; {hint}"
