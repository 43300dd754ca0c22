"""WriteTxnMarkers (API key 27)."""

from __future__ import annotations

from minikafka.wire.schema import Message, array, boolean, int8, int16, int32, int64, string


class WritableTxnMarkerTopic(Message):
    name: str = string("0+")
    partition_indexes: list[int] = array(int32, "0+", named=True)


class WritableTxnMarker(Message):
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    transaction_result: bool = boolean("0+")
    topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic, "0+")
    coordinator_epoch: int = int32("0+")
    transaction_version: int = int8("2+")


class WriteTxnMarkersRequest(Message, versions="1-2", flexible="1+"):
    markers: list[WritableTxnMarker] = array(WritableTxnMarker, "0+")


class WritableTxnMarkerPartitionResult(Message):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


class WritableTxnMarkerTopicResult(Message):
    name: str = string("0+")
    partitions: list[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult, "0+")


class WritableTxnMarkerResult(Message):
    producer_id: int = int64("0+")
    topics: list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult, "0+")


class WriteTxnMarkersResponse(Message, versions="1-2", flexible="1+"):
    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult, "0+")
