"""DescribeLogDirs (API key 35)."""

from __future__ import annotations

from minikafka.wire.schema import Message, array, boolean, int16, int32, int64, string


class DescribableLogDirTopic(Message):
    topic: str = string("0+")
    partitions: list[int] = array(int32, "0+", named=True)


class DescribeLogDirsRequest(Message, versions="1-5", flexible="2+"):
    topics: list[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, "0+", nullable="0+")


class DescribeLogDirsPartition(Message):
    partition_index: int = int32("0+")
    partition_size: int = int64("0+")
    offset_lag: int = int64("0+")
    is_future_key: bool = boolean("0+")


class DescribeLogDirsTopic(Message):
    name: str = string("0+")
    partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition, "0+")


class DescribeLogDirsResult(Message):
    error_code: int = int16("0+")
    log_dir: str = string("0+")
    topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic, "0+")
    total_bytes: int = int64("4+", default=-1)
    usable_bytes: int = int64("4+", default=-1)
    is_cordoned: bool = boolean("5+")


class DescribeLogDirsResponse(Message, versions="1-5", flexible="2+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("3+")
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult, "0+")
