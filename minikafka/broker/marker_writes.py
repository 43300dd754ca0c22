"""Writes markers of transactions as a leader, for coordinators on this and on other nodes, and for operators."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Final

from minikafka.broker.delayed import ProduceResult
from minikafka.broker.partition import Partition
from minikafka.broker.replicas import Replicas
from minikafka.broker.waiting import ALL_IN_SYNC
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_OFFSET, TopicPartition
from minikafka.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

TIMEOUT_MS: Final = 30_000
"""Default of Kafka's ``request.timeout.ms``; the request has none of its own."""

MARKERS_AT_ONCE: Final = 100
"""Some are written in one turn of the loop."""

Wanted = tuple[WritableTxnMarker, TopicPartition]
Paced = Callable[[Iterable[Wanted]], AsyncIterator[Wanted]]
Check = Callable[[Partition, WritableTxnMarker], None]
"""Raises a KafkaError for a marker that is not to be written there."""


def of_a_coordinator(_partition: Partition, _marker: WritableTxnMarker) -> None:
    """It may write any marker: the log looks at the epochs."""


def of_an_operator(partition: Partition, marker: WritableTxnMarker) -> None:
    """A client may abort a transaction that is open here, and nothing else (row T27).

    It names the epochs that DescribeProducers shows: others would keep producers or coordinators out that are alive.
    """
    tp, producer_id = partition.topic_partition, marker.producer_id
    if marker.transaction_result:
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "only coordinators commit transactions")
    entry = partition.log.producers.get(producer_id)
    if entry is None or entry.current_txn_first_offset == NO_OFFSET:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, f"producer {producer_id} has no open transaction in {tp}")
    if marker.producer_epoch != entry.epoch:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"producer {producer_id} is in epoch {entry.epoch} in {tp}, not {marker.producer_epoch}",
        )
    if marker.coordinator_epoch != max(entry.coordinator_epoch, 0):
        raise KafkaError(
            ErrorCode.TRANSACTION_COORDINATOR_FENCED,
            f"the last marker for producer {producer_id} in {tp} has coordinator epoch {entry.coordinator_epoch}",
        )


async def write_markers(
    request: WriteTxnMarkersRequest, replicas: Replicas, paced: Paced, check: Check = of_a_coordinator
) -> WriteTxnMarkersResponse:
    """Write all markers, and answer when the replicas have them."""
    wanted = (
        (marker, TopicPartition(topic.name, index))
        for marker in request.markers
        for topic in marker.topics
        for index in topic.partition_indexes
    )
    results: list[ProduceResult] = []
    async for marker, tp in paced(wanted):
        results.append(_stage(replicas, tp, marker, check))
        replicas.commit_soon()
    await _committed(results, replicas)
    return _response(request, results)


def _stage(replicas: Replicas, tp: TopicPartition, marker: WritableTxnMarker, check: Check) -> ProduceResult:
    result = ProduceResult(tp)
    try:
        partition = replicas.leader_of(tp)
        check(partition, marker)
        appended = replicas.stage_marker(
            partition,
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            commits=marker.transaction_result,
            transaction_version=marker.transaction_version,
        )
        result.required_offset = appended.last_offset + 1
        result.leader_epoch = partition.leader_epoch
    except KafkaError as error:
        result.fail(error)
    return result


async def _committed(results: Sequence[ProduceResult], replicas: Replicas) -> None:
    """Until each marker has its final result."""
    done = asyncio.Event()
    replicas.commit_staged()
    waiting = replicas.waiting.await_acks(results, ALL_IN_SYNC, TIMEOUT_MS, lambda _results: done.set())
    try:
        await done.wait()
    finally:
        if waiting is not None:
            waiting.cancel()


def _response(request: WriteTxnMarkersRequest, results: Sequence[ProduceResult]) -> WriteTxnMarkersResponse:
    errors = iter([result.error for result in results])
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=next(errors))
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )
