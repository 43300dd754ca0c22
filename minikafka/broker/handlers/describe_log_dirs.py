"""DescribeLogDirs (key 35), versions 1-4: what is in this broker's log directories, what moves, what failed.

``offset_lag`` of a replica is how far it is behind the high watermark, of a future replica how far behind the present
one (KIP-113). Sizes of a file system are -1 where it does not tell (KIP-827).
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from os.path import abspath

from minikafka.broker.context import RequestContext
from minikafka.broker.replicas import Replicas
from minikafka.errors import ErrorCode
from minikafka.model import CLUSTER_METADATA_TOPIC, TopicPartition
from minikafka.storage.log_dir import LogDir
from minikafka.storage.log_store import LogStore
from minikafka.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def handle(
    request: DescribeLogDirsRequest, context: RequestContext, store: LogStore, replicas: Replicas
) -> DescribeLogDirsResponse:
    """Of these partitions, or of all; a directory without any of them is named all the same."""
    wanted = None
    if request.topics is not None:
        wanted = {TopicPartition(topic.topic, index) for topic in request.topics for index in topic.partitions}
    return DescribeLogDirsResponse(results=[_described(store, replicas, each, wanted) for each in store.directories])


def _described(
    store: LogStore, replicas: Replicas, directory: LogDir, wanted: Set[TopicPartition] | None
) -> DescribeLogDirsResult:
    path = abspath(directory.path)
    if directory.failure is not None:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path)
    total, usable = directory.space()
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for tp, partition in _replicas(store, replicas, directory, wanted):
        if tp.topic != CLUSTER_METADATA_TOPIC:
            topics.setdefault(tp.topic, []).append(partition)
    return DescribeLogDirsResult(
        log_dir=path,
        topics=[DescribeLogDirsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
        total_bytes=total,
        usable_bytes=usable,
    )


def _replicas(
    store: LogStore, replicas: Replicas, directory: LogDir, wanted: Set[TopicPartition] | None
) -> Iterator[tuple[TopicPartition, DescribeLogDirsPartition]]:
    """Those that are ``wanted``; None: all. A question for few costs little, however many there are."""
    logs, futures = directory.logs, directory.futures
    for tp in sorted(logs.keys() | futures.keys() if wanted is None else wanted):
        if (log := logs.get(tp)) is not None:
            partition = replicas.get(tp)
            high_watermark = log.log_end_offset if partition is None else partition.high_watermark
            lag = max(0, high_watermark - log.log_end_offset)
            yield tp, _partition(tp, log.size_in_bytes, lag, is_future=False)
        if (future := futures.get(tp)) is not None:
            current = store.get(tp)
            lag = 0 if current is None else max(0, current.log_end_offset - future.log.log_end_offset)
            yield tp, _partition(tp, future.log.size_in_bytes, lag, is_future=True)


def _partition(tp: TopicPartition, size: int, lag: int, *, is_future: bool) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(
        partition_index=tp.partition, partition_size=size, offset_lag=lag, is_future_key=is_future
    )
