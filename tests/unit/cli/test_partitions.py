"""What a verb says of a topic that is not there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast
from uuid import UUID

import pytest

from minikafka.cli.partitions import absent, which_may_be_misspelt
from minikafka.client import Admin
from minikafka.client.cluster import TopicView
from minikafka.errors import ErrorCode, KafkaError


class FakeAdmin:
    async def list_topics(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(name=name) for name in ("events", "orders")]


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("evnts", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "topic 'evnts' not found; did you mean events?"),
        ("clicks", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "topic 'clicks' not found; create it"),
        ("evnts", ErrorCode.TOPIC_AUTHORIZATION_FAILED, "cannot read topic 'evnts'"),
    ],
)
async def test_the_topic_that_was_meant_is_named(name: str, error: ErrorCode, said: str) -> None:
    view = TopicView(name, UUID(int=0), error, False, {})
    found = await absent(cast("Admin", FakeAdmin()), view, "create it")
    assert (found.code, found.message) == (error, said)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "topic 'evnts' not found; did you mean events?"),
        (ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false"),
    ],
)
async def test_so_it_is_by_what_changes_a_topic(error: ErrorCode, said: str) -> None:
    with pytest.raises(KafkaError) as raised:
        async with which_may_be_misspelt(cast("Admin", FakeAdmin()), "evnts"):
            raise KafkaError(error, "delete.topic.enable is false")
    assert (raised.value.code, raised.value.message) == (error, said)
