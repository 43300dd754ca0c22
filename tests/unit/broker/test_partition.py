from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
from broker_replicas import FOLLOWER, ME, Rig

from minikafka.broker.partition import Partition, log_config
from minikafka.config import TopicConfig
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import Isolation, OffsetAndEpoch
from minikafka.replication.epochs import diverging_epoch
from minikafka.storage.config import LogConfig


def test_an_index_has_entries_enough_and_not_too_many_whatever_its_topic_wants() -> None:
    """Between two entries the event loop walks: a client's setting let a fetch keep it for a second."""
    assert log_config(TopicConfig({"segment.index.bytes": "2147483647"})).segment_index_bytes == 10 * 1024**2
    assert log_config(TopicConfig({"index.interval.bytes": "2147483647"})).index_interval_bytes == 64 * 1024
    assert log_config(TopicConfig({"index.interval.bytes": "0"})).index_interval_bytes == 0


def test_what_is_set_for_a_topic_reaches_its_logs() -> None:
    """Each setting, with a value that is not its default."""
    own = {
        "cleanup.policy": "compact",
        "delete.retention.ms": "1",
        "file.delete.delay.ms": "2",
        "flush.messages": "3",
        "flush.ms": "4",
        "index.interval.bytes": "5",
        "max.compaction.lag.ms": "600",
        "min.cleanable.dirty.ratio": "0.7",
        "min.compaction.lag.ms": "8",
        "preallocate": "true",
        "retention.bytes": "9",
        "retention.ms": "10",
        "segment.bytes": "11000",
        "segment.index.bytes": "12",
        "segment.jitter.ms": "13",
        "segment.ms": "1400",
    }
    changed = log_config(TopicConfig({**own, "message.timestamp.type": "LogAppendTime"}))
    unchanged = log_config(TopicConfig())
    kept = {field.name for field in fields(LogConfig) if getattr(changed, field.name) == getattr(unchanged, field.name)}
    assert kept == {"notes_durable_end"}, "that is the metadata log's"
    found = {name: getattr(changed, name.replace(".", "_")) for name in own}
    assert found == {name: type(found[name])(value) for name, value in own.items()} | {
        "cleanup.policy": frozenset({"compact"})
    }


@pytest.fixture
async def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


@pytest.fixture
async def partition(rig: Rig) -> Partition:
    """Led in epoch 2, with offsets 0-2 of epoch 1 and 3-4 of epoch 2."""
    partition = rig.partition()
    rig.lead(partition, epoch=1)
    rig.append(partition, b"a", b"b", b"c")
    rig.lead(partition, epoch=2)
    rig.append(partition, b"d", b"e")
    return partition


@pytest.mark.spec("E3")
@pytest.mark.spec("E6")
@pytest.mark.parametrize(
    ("epoch", "error"),
    [(-1, None), (2, None), (1, ErrorCode.FENCED_LEADER_EPOCH), (3, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
async def test_callers_are_fenced_by_their_epoch(partition: Partition, epoch: int, error: ErrorCode | None) -> None:
    if error is None:
        partition.check_leader_epoch(epoch)
        return
    with pytest.raises(KafkaError) as refused:
        partition.check_leader_epoch(epoch)
    assert refused.value.code is error


@pytest.mark.spec("E5")
@pytest.mark.parametrize(
    ("offset", "epoch", "expected"),
    [
        (5, 2, None),
        (4, 2, None),
        (3, 1, None),
        (2, 1, None),
        (9, -1, None),
        (4, 1, OffsetAndEpoch(3, 1)),
        (6, 2, OffsetAndEpoch(5, 2)),
        (1, 0, OffsetAndEpoch(0, 0)),
    ],
)
async def test_where_a_fetcher_left_this_log(
    partition: Partition, offset: int, epoch: int, expected: OffsetAndEpoch | None
) -> None:
    assert diverging_epoch(partition.log, offset, epoch) == expected


async def test_an_epoch_from_the_future_is_out_of_range(partition: Partition) -> None:
    with pytest.raises(KafkaError) as refused:
        diverging_epoch(partition.log, 5, 3)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.spec("R11")
async def test_a_followers_high_watermark_stays_within_its_log(rig: Rig, partition: Partition) -> None:
    assert partition.high_watermark == 5
    rig.follow(partition, FOLLOWER, 3)
    assert (partition.leader, partition.leader_id, partition.leader_epoch) == (None, FOLLOWER, 3)
    assert partition.high_watermark == 5, "it stays where it was"
    for told in (3, 100, 0):
        partition.replica.follow_high_watermark(told)
        assert partition.high_watermark == 5, "it does not fall, nor beyond the end"
    partition.log.truncate_to(3)
    partition.replica.follow_high_watermark(partition.high_watermark)
    assert partition.high_watermark == 3
    partition.log.truncate_fully_and_start_at(10)
    partition.replica.follow_high_watermark(3)
    assert partition.high_watermark == 10, "not below the log's start either"


@pytest.mark.spec("R14")
async def test_stepping_down_keeps_what_was_committed_and_no_more(rig: Rig) -> None:
    partition = rig.partition()
    rig.lead(partition, replicas=(ME, FOLLOWER))
    rig.append(partition, b"a", b"b")
    rig.fetched(partition, FOLLOWER, 1)
    assert partition.high_watermark == 1
    rig.follow(partition, FOLLOWER, 2)
    assert partition.high_watermark == 1
    rig.follow(partition, 3, 4)
    assert (partition.high_watermark, partition.leader_id) == (1, 3)


@pytest.mark.spec("R15")
async def test_what_consumers_may_read(rig: Rig) -> None:
    partition = rig.partition()
    rig.lead(partition, replicas=(ME, FOLLOWER))
    rig.append(partition, b"a", b"b")
    for isolation in Isolation:
        assert partition.read_limit(isolation) == 0
    rig.fetched(partition, FOLLOWER, 2)
    for isolation in Isolation:
        assert partition.read_limit(isolation) == 2


@pytest.mark.spec("R22")
async def test_a_restored_high_watermark_is_clamped_too(rig: Rig, partition: Partition) -> None:
    for restored, held in [(-1, 0), (3, 3), (99, 5)]:
        again = rig.local_replica(partition.topic_partition, partition.log, partition.config, restored)
        assert again.high_watermark == held


async def test_settings_reach_log_and_checks(rig: Rig) -> None:
    partition = rig.partition(flush_messages=3)
    rig.lead(partition)
    assert not partition.needs_keys
    assert not partition.replica.is_sync_due
    rig.append(partition, b"a", b"b", b"c")
    assert partition.replica.is_sync_due
    partition.configure(TopicConfig({"cleanup.policy": "compact", "max.message.bytes": "77", "segment.bytes": "2048"}))
    assert partition.needs_keys
    assert partition.batch_limits.max_message_bytes == 77
    assert partition.log.config.segment_bytes == 2048
