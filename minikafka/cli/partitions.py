"""Topics and partitions that a command line names, looked up in the cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minikafka.cli.options import Target
    from minikafka.client import Admin
    from minikafka.client.cluster import TopicView
    from minikafka.errors import KafkaError
    from minikafka.model import TopicPartition


async def find_partitions(admin: Admin, wanted: Mapping[str, Sequence[int]], cluster: Target) -> list[TopicPartition]:
    """The partitions of topics, all of a topic where no index is given. KafkaError where one is not there."""
    from minikafka.errors import ErrorCode, KafkaError
    from minikafka.model import TopicPartition

    found = []
    for view in await admin.describe_topics(sorted(wanted)):
        if view.error:
            raise await absent(admin, view, f"{cluster.command('topic list')} shows those that are there")
        for index in wanted[view.name] or sorted(view.partitions):
            if index not in view.partitions:
                last = len(view.partitions) - 1
                message = f"partition {index} not found: topic {view.name!r} has partitions 0 to {last}"
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
            found.append(TopicPartition(view.name, index))
    return found


async def absent(admin: Admin, view: TopicView, otherwise: str = "") -> KafkaError:
    """The error of a topic that could not be described. One that is not there may have been misspelt: the hint is the
    name that was meant, or else what is given."""
    from minikafka.client.admin.base import NO_TOPIC
    from minikafka.errors import KafkaError

    if view.error is not NO_TOPIC:
        return KafkaError(view.error, f"cannot read topic {view.name!r}")
    return await _not_found(admin, view.name, otherwise)


@asynccontextmanager
async def which_may_be_misspelt(admin: Admin, name: str) -> AsyncIterator[None]:
    """Around what is done to a topic of that name: where there is none, the error names the nearest one."""
    from minikafka.client.admin.base import NO_TOPIC
    from minikafka.errors import KafkaError

    try:
        yield
    except KafkaError as error:
        if error.code is not NO_TOPIC:
            raise
        raise await _not_found(admin, name) from error


async def _not_found(admin: Admin, name: str, otherwise: str = "") -> KafkaError:
    from difflib import get_close_matches

    from minikafka.client.admin.base import NO_TOPIC
    from minikafka.errors import KafkaError

    near = get_close_matches(name, [topic.name for topic in await admin.list_topics()], 1)
    hint = f"did you mean {near[0]}?" if near else otherwise
    return KafkaError(NO_TOPIC, f"topic {name!r} not found" + (f"; {hint}" if hint else ""))
