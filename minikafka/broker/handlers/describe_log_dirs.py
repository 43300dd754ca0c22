"""DescribeLogDirs (key 35), versions 1-5: what is in this broker's log directories, what moves, what failed.

``offset_lag`` of a replica is how far it is behind the high watermark, of a future replica how far behind the present
one (KIP-113). Sizes of a file system are -1 where it does not tell (KIP-827).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from os.path import abspath
from typing import Final

from minikafka.broker.authorization import ByHandler
from minikafka.broker.authorizer import Authorizer
from minikafka.broker.context import RequestContext
from minikafka.broker.long_answers import LongAnswers
from minikafka.broker.replicas import Replicas
from minikafka.errors import ErrorCode
from minikafka.model import CLUSTER_METADATA_TOPIC, TopicPartition
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.storage.log_dir import LogDir
from minikafka.storage.log_store import LogStore
from minikafka.wire.codec import encode_around
from minikafka.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

AUTHORIZATION: Final = (ByHandler("DESCRIBE on the cluster", ((AclOperation.DESCRIBE, ResourceType.CLUSTER),)),)

LOOKS_OF_A_ROW: Final = 20
"""So many names of what is not here cost as much as a row."""

Named = Mapping[str, Collection[int]]
"""Partitions by topic."""


async def handle(
    request: DescribeLogDirsRequest,
    context: RequestContext,
    store: LogStore,
    replicas: Replicas,
    long_answers: LongAnswers,
    authorizer: Authorizer,
) -> None:
    """Of these partitions, or of all; a directory without any of them is named all the same."""
    if not authorizer.permits(context, AclOperation.DESCRIBE, ResourceType.CLUSTER):
        context.send(DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        return
    results: list[bytes] = []
    wanted = None if request.topics is None else _named(request.topics)
    async with long_answers.prepare(context) as answer:
        for directory in store.directories:
            topics: list[bytes] = []
            for name, indexes in (_all(directory) if wanted is None else wanted).items():
                here = [TopicPartition(name, index) for index in sorted(indexes) if _has(directory, name, index)]
                found = [row for tp in here for row in _rows(tp, store, replicas, directory)]
                await answer.add(len(indexes) // LOOKS_OF_A_ROW)
                if found:
                    topics.append(await answer.encoded(DescribeLogDirsTopic(name=name, partitions=found), len(found)))
            results.append(encode_around(_described(directory), context.version, "topics", topics))
        context.send_around(DescribeLogDirsResponse(), "results", results)


def _has(directory: LogDir, topic: str, index: int) -> bool:
    """Whether it may have the replica; there may be 80,000 to look for."""
    return (topic, index) in directory.logs or (topic, index) in directory.futures


def _named(topics: Iterable[DescribableLogDirTopic]) -> Named:
    named: defaultdict[str, set[int]] = defaultdict(set)
    for topic in topics:
        named[topic.topic].update(topic.partitions)
    return named


def _all(directory: LogDir) -> Named:
    if directory.failure is not None:
        return {}
    found: defaultdict[str, set[int]] = defaultdict(set)
    for tp in sorted(directory.logs.keys() | directory.futures.keys()):
        found[tp.topic].add(tp.partition)
    return found


def _described(directory: LogDir) -> DescribeLogDirsResult:
    path = abspath(directory.path)
    if directory.failure is not None:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path)
    total, usable = directory.space()
    return DescribeLogDirsResult(log_dir=path, total_bytes=total, usable_bytes=usable)


def _rows(
    tp: TopicPartition, store: LogStore, replicas: Replicas, directory: LogDir
) -> Iterator[DescribeLogDirsPartition]:
    """The replica there, and the one that is being copied there."""
    if directory.failure is not None or tp.topic == CLUSTER_METADATA_TOPIC:
        return
    if (log := directory.logs.get(tp)) is not None:
        partition = replicas.get(tp)
        high_watermark = log.log_end_offset if partition is None else partition.high_watermark
        lag = max(0, high_watermark - log.log_end_offset)
        yield _partition(tp, log.size_in_bytes, lag, is_future=False)
    if (future := directory.futures.get(tp)) is not None:
        current = store.get(tp)
        lag = 0 if current is None else max(0, current.log_end_offset - future.log.log_end_offset)
        yield _partition(tp, future.log.size_in_bytes, lag, is_future=True)


def _partition(tp: TopicPartition, size: int, lag: int, *, is_future: bool) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(
        partition_index=tp.partition, partition_size=size, offset_lag=lag, is_future_key=is_future
    )
