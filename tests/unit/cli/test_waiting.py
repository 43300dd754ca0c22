from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from minikafka.cli.options import Target
from minikafka.cli.waiting import MIN_ISR, Concern, _of_topic, quorum_trouble
from minikafka.client import Admin
from minikafka.errors import ErrorCode, KafkaError


class FakeAdmin:
    """Knows one topic of one partition."""

    def __init__(self, replicas: tuple[int, ...], in_sync_replicas: tuple[int, ...], min_insync_replicas: int) -> None:
        self._partition = SimpleNamespace(leader=1, replicas=replicas, in_sync_replicas=in_sync_replicas)
        self._settings = [SimpleNamespace(name=MIN_ISR, value=str(min_insync_replicas))]

    async def describe_topics(self, names: list[str]) -> list[SimpleNamespace]:
        return [SimpleNamespace(name=name, error=ErrorCode.NONE, partitions={0: self._partition}) for name in names]

    async def describe_configs(self, _topic: str) -> list[SimpleNamespace]:
        return self._settings


@pytest.mark.parametrize(
    ("replicas", "in_sync_replicas", "min_insync_replicas", "is_short"),
    [
        ((1, 2, 3), (1, 2), 2, False),
        ((1, 2, 3), (1,), 2, True),
        ((1, 2), (1,), 3, True),
        ((1, 2), (1, 2), 3, False),  # a broker asks for no more replicas than there are
        ((1,), (1,), 2, False),
    ],
)
async def test_an_isr_is_too_small_when_a_broker_says_so(
    replicas: tuple[int, ...], in_sync_replicas: tuple[int, ...], min_insync_replicas: int, is_short: bool
) -> None:
    admin = cast("Admin", FakeAdmin(replicas, in_sync_replicas, min_insync_replicas))
    said = await _of_topic(admin, Concern(cast("Target", None), "orders", needs_isr=True))
    assert (said is not None) == is_short


@pytest.mark.parametrize(
    ("code", "trouble"),
    [
        (ErrorCode.NOT_CONTROLLER, "the quorum has no leader"),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None),  # `topic list` of a user called what it listed outdated
        (ErrorCode.UNSUPPORTED_VERSION, None),
        (ErrorCode.REQUEST_TIMED_OUT, "the metadata quorum does not answer"),
    ],
)
async def test_a_user_without_rights_is_told_of_no_trouble(code: ErrorCode, trouble: str | None) -> None:
    class Asking:
        async def describe_quorum(self) -> None:
            raise KafkaError(code, "the quorum has no leader")

    assert await quorum_trouble(cast("Admin", Asking())) == trouble
