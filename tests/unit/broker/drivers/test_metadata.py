from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from broker_client import NOW_MS
from broker_node import HastyDisk, in_time, turns

from minikafka.broker.drivers import metadata as metadata_module
from minikafka.broker.drivers import metadata_batches as batches_module
from minikafka.broker.drivers.commits import UnreadableYetError
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.drivers.metadata_log import MetadataLog
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.delta import MetadataDelta
from minikafka.metadata.records import PartitionRecord, Record, TopicRecord, encode_record
from minikafka.model import CLUSTER_METADATA_TOPIC, OffsetAndEpoch, TopicPartition
from minikafka.raft import effects as do
from minikafka.storage.config import NEVER, UNLIMITED, LogConfig
from minikafka.storage.errors import PassingFailure
from minikafka.storage.log import Log


class Quorum:
    """A metadata log that grows as a test says, and what was made of it."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        disk = HastyDisk()
        config = LogConfig(retention_ms=UNLIMITED, retention_bytes=UNLIMITED, segment_ms=NEVER)
        self._log = Log.open(disk, str(directory), TopicPartition(CLUSTER_METADATA_TOPIC, 0), config)
        self.files = MetadataLog(str(directory), self._log, disk, self._in_thread, self._in_thread, lambda: NOW_MS)
        self.metadata = Metadata(self.files)
        self.deltas: list[MetadataDelta] = []
        self.metadata.subscribe(self.deltas.append)

    def append(self, *records: Record, epoch: int = 1) -> int:
        self.files.append(do.Append(self._log.log_end_offset, epoch, tuple(map(encode_record, records))))
        return self._log.log_end_offset

    def lead(self, epoch: int) -> int:
        self.files.append(do.AppendLeaderChange(self._log.log_end_offset, epoch, 1, (1,), (1,)))
        return self._log.log_end_offset

    def advance(self, high_watermark: int) -> None:
        """All that is committed is applied."""
        self.metadata.commit(high_watermark)
        while self.metadata.apply_portion():
            pass

    @property
    def topics(self) -> list[str]:
        return sorted(topic.name for topic in self.metadata.image.topics())

    def _in_thread(self, act: Any) -> Any:
        return asyncio.get_running_loop().run_in_executor(None, act)


@pytest.fixture
def quorum(tmp_path: Path) -> Quorum:
    return Quorum(tmp_path / "log")


def topic(name: str) -> list[Record]:
    topic_id = UUID(bytes=name.encode().ljust(16, b"\0"))
    return [TopicRecord(name, topic_id), PartitionRecord(topic_id, 0, (1,), (1,), 1, 0, 0)]


@pytest.mark.spec("C2")
async def test_only_what_is_committed_is_applied(quorum: Quorum) -> None:
    committed = quorum.append(*topic("a"))
    end = quorum.append(*topic("b"))
    quorum.advance(committed)
    assert (quorum.topics, quorum.metadata.applied_offset) == (["a"], committed)
    quorum.advance(end)
    assert quorum.topics == ["a", "b"]
    assert [sorted(delta.partitions) for delta in quorum.deltas] == [
        [TopicPartition("a", 0)],
        [TopicPartition("b", 0)],
    ]
    assert quorum.deltas[1].before is quorum.deltas[0].after
    quorum.advance(end)
    quorum.advance(committed)
    assert len(quorum.deltas) == 2, "what is applied is not applied again"


async def test_the_image_says_where_it_ends(quorum: Quorum) -> None:
    quorum.lead(1)
    quorum.advance(1)
    assert (quorum.metadata.image.offset, quorum.metadata.applied_offset) == (0, 1)
    end = quorum.append(*topic("a"))
    quorum.advance(end)
    quorum.lead(2)
    end = quorum.append(*topic("b"), epoch=2)
    quorum.advance(end)
    assert (quorum.metadata.image.offset, quorum.metadata.image.epoch) == (end - 1, 2)


async def test_waiting_for_an_offset(quorum: Quorum) -> None:
    loop = asyncio.get_running_loop()
    waiting = [loop.create_task(quorum.metadata.wait_for(offset)) for offset in (0, 2, 4)]
    given_up = loop.create_task(quorum.metadata.wait_for(2))
    await turns()
    assert [task.done() for task in waiting] == [True, False, False]
    given_up.cancel()
    first, second = quorum.append(*topic("a")), quorum.append(*topic("b"))
    assert (first, second) == (2, 4)
    quorum.advance(first)
    await turns()
    assert [task.done() for task in waiting] == [True, True, False]
    quorum.advance(second)
    await in_time(asyncio.gather(*waiting))


async def test_a_snapshot_replaces_everything(quorum: Quorum, tmp_path: Path) -> None:
    leader = Quorum(tmp_path / "leader")
    leader.append(*topic("a"))
    end = leader.append(*topic("c"))
    leader.advance(end)
    leader.metadata._snapshot_offset = -metadata_module.RECORDS_BETWEEN_SNAPSHOTS
    snapshot = await leader.metadata.maybe_snapshot(end)
    assert snapshot is not None
    found = await leader.files.latest_snapshot()
    assert found is not None
    quorum.advance(quorum.append(*topic("b")))
    waiting = asyncio.get_running_loop().create_task(quorum.metadata.wait_for(end))
    await turns()
    quorum.metadata.install(found[1], found[0])
    assert not quorum.metadata.apply_portion()
    assert quorum.topics == ["a", "c"]
    assert [topic.name for topic in quorum.deltas[-1].deleted_topics] == ["b"], "subscribers hear of the difference"
    assert sorted(quorum.deltas[-1].partitions) == [TopicPartition("a", 0), TopicPartition("c", 0)]
    assert quorum.metadata.applied_offset == end
    await in_time(waiting)


async def test_snapshots_are_written_now_and_then(
    quorum: Quorum, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(metadata_module, "RECORDS_BETWEEN_SNAPSHOTS", 4)
    metadata = quorum.metadata
    quorum.advance(quorum.append(*topic("a")))
    assert await metadata.maybe_snapshot(100) is None, "too little happened"
    end = quorum.append(*topic("b"))
    quorum.advance(end)
    assert await metadata.maybe_snapshot(end - 1) is None, "what it covers is not durable yet"
    snapshot = await metadata.maybe_snapshot(end)
    assert snapshot is not None
    assert snapshot.snapshot_id == OffsetAndEpoch(end, 1)
    assert await metadata.maybe_snapshot(end) is None
    quorum.advance(quorum.append(*topic("c")))
    again = Quorum(tmp_path / "log")
    await again.metadata.load_latest_snapshot()
    assert (again.topics, again.metadata.applied_offset) == (["a", "b"], end)
    again.advance(end + 2)
    assert again.topics == ["a", "b", "c"]


async def test_without_a_snapshot_there_is_nothing_to_load(quorum: Quorum) -> None:
    await quorum.metadata.load_latest_snapshot()
    assert quorum.deltas == []


# -- in portions ------------------------------------------------------------------------------------------------------


@pytest.fixture
def portions(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many records were decoded since the last look, when the portion is 10."""
    monkeypatch.setattr(metadata_module, "PORTION", 10)
    decoded = [0]
    decode = metadata_module.decode_record

    def count(value: bytes) -> Record:
        decoded[0] += 1
        return decode(value)

    monkeypatch.setattr(metadata_module, "decode_record", count)
    return decoded


async def test_the_records_of_a_batch_are_taken_out_of_it_by_portions_too(
    quorum: Quorum, portions: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, iter_records = [0], batches_module.iter_records

    def counted(*of: Any) -> Iterator[Any]:
        for record in iter_records(*of):
            taken[0] += 1
            yield record

    monkeypatch.setattr(batches_module, "iter_records", counted)
    end = quorum.append(*(record for number in range(25) for record in topic(f"t{number}")))
    quorum.metadata.commit(end)
    assert quorum.metadata.apply_portion()
    assert taken == portions == [10]
    quorum.advance(end)
    assert taken == portions == [50]
    assert len(quorum.topics) == 25


def applied(quorum: Quorum, decoded: list[int]) -> list[tuple[int, int]]:
    """Records decoded and deltas published, by portion, until all is applied."""
    portions, is_behind = [], True
    while is_behind:
        decoded[0], deltas = 0, len(quorum.deltas)
        is_behind = quorum.metadata.apply_portion()
        portions.append((decoded[0], len(quorum.deltas) - deltas))
        assert len(portions) < 100
    return portions


def topics(first: int, count: int) -> list[Record]:
    return [TopicRecord(f"topic-{first + at}", UUID(int=1 + first + at)) for at in range(count)]


async def test_no_turn_applies_more_than_a_portion(quorum: Quorum, portions: list[int]) -> None:
    """A node that is far behind applied all in one turn: 1.4 s for 100,000 records."""
    for batch in range(25):
        end = quorum.append(*topics(4 * batch, 4))
    quorum.metadata.commit(end)
    done = applied(quorum, portions)
    assert sum(decoded for decoded, _ in done) == 100
    assert max(decoded for decoded, _ in done) <= 10
    assert len(quorum.deltas) == 9, "three batches are more than a portion; the last delta has one"
    assert all((delta.after.offset + 1) % 4 == 0 for delta in quorum.deltas), "whole batches"
    assert len(quorum.topics) == 100


async def test_nobody_sees_a_part_of_a_batch(quorum: Quorum, portions: list[int]) -> None:
    before = quorum.metadata.image
    quorum.append(*topics(0, 35))
    end = quorum.append(*topics(35, 1))
    quorum.metadata.commit(end)
    for _ in range(4):
        assert quorum.metadata.apply_portion()
        assert quorum.metadata.image is before
        assert quorum.metadata.applied_offset == 0
    applied(quorum, portions)
    assert [len(delta.created_topics) for delta in quorum.deltas] == [35, 1]


async def test_what_is_prepared_is_prepared_in_portions_and_before_anybody_sees_the_change(
    quorum: Quorum, portions: list[int]
) -> None:
    prepared: list[tuple[int, int]] = []

    def prepare(delta: MetadataDelta) -> Iterator[None]:
        for _ in range(25):
            prepared.append((delta.after.offset, quorum.metadata.image.offset))
            yield

    quorum.metadata.prepare_by(prepare)  # type: ignore[arg-type]
    before = quorum.metadata.image.offset
    quorum.metadata.commit(quorum.append(*topics(0, 2)))
    taken = []
    while quorum.metadata.apply_portion():
        taken.append(len(prepared))
        assert not quorum.deltas
    assert len(taken) == 2
    assert max(after - before for before, after in pairwise([0, *taken, len(prepared)])) <= 10
    assert prepared == [(1, before)] * 25
    assert [delta.after.offset for delta in quorum.deltas] == [1]


async def test_a_commit_inside_a_batch_waits_for_the_rest(quorum: Quorum, portions: list[int]) -> None:
    end = quorum.append(*topics(0, 5))
    quorum.metadata.commit(end - 2)
    assert applied(quorum, portions) == [(0, 0)]
    assert quorum.topics == []
    quorum.metadata.commit(end)
    applied(quorum, portions)
    assert len(quorum.topics) == 5


async def test_a_snapshot_is_loaded_in_portions(quorum: Quorum, portions: list[int]) -> None:
    quorum.append(*topics(0, 50))
    quorum.metadata.commit(50)
    assert quorum.metadata.apply_portion(), "it is given up for the snapshot"
    quorum.metadata.install([encode_record(record) for record in topics(100, 60)], OffsetAndEpoch(90, 3))
    quorum.metadata.commit(90)
    done = applied(quorum, portions)
    assert max(decoded for decoded, _ in done) == 10
    assert [delta.after.offset for delta in quorum.deltas] == [89]
    assert len(quorum.deltas[0].created_topics) == 60
    assert quorum.metadata.applied_offset == 90


async def test_no_snapshot_is_taken_while_another_is_being_loaded(
    quorum: Quorum, portions: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_module, "RECORDS_BETWEEN_SNAPSHOTS", 1)
    quorum.advance(quorum.append(*topics(0, 5)))
    quorum.metadata.install([encode_record(record) for record in topics(100, 60)], OffsetAndEpoch(90, 3))
    assert quorum.metadata.apply_portion()
    assert await quorum.metadata.maybe_snapshot(90) is None


@pytest.mark.parametrize(
    "shortage",
    [OSError(errno.EMFILE, "too many open files"), KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no descriptor")],
    ids=["disk", "log"],
)
async def test_a_log_that_cannot_be_read_for_want_of_something_is_read_again(
    quorum: Quorum, monkeypatch: pytest.MonkeyPatch, shortage: Exception
) -> None:
    end = quorum.append(*topic("a"))
    quorum.metadata.commit(end)
    with monkeypatch.context() as patch:
        patch.setattr(quorum.files, "read", raising(shortage))
        with pytest.raises(UnreadableYetError):
            quorum.metadata.apply_portion()
    assert not quorum.metadata.apply_portion()
    assert (quorum.topics, len(quorum.deltas)) == (["a"], 1)


async def test_what_a_subscriber_is_short_of_is_not_taken_for_an_unreadable_log(quorum: Quorum) -> None:
    """The others did not hear of the delta: to go on would leave them behind for good."""
    shortage = PassingFailure("could not unmark the log of a-0: too many open files")
    quorum.metadata.subscribe(raising(shortage))
    quorum.metadata.commit(quorum.append(*topic("a")))
    with pytest.raises(PassingFailure):
        quorum.metadata.apply_portion()


def raising(error: Exception) -> Any:
    def refuse(*_arguments: object) -> None:
        raise error

    return refuse
