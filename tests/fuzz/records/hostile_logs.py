"""A leader's log and a follower's, which take hostile batches beside honest ones, and all that happens to a log."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any, cast

from at_once import compact, delete_old_segments, offset_for_timestamp, offset_of_max_timestamp
from hostile_batches import INT64_MAX, NOW_MS, Hostile
from hostile_readers import check_readers, consume
from simulator.disk import SimulatedDisk

from minikafka.broker.partition import Partition
from minikafka.broker.produced_batches import OtherCodecError, UncheckedRecordsError, UnverifiedError, check
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import Compression, TimestampType, TopicPartition
from minikafka.records.batch import iter_batches, parse_header
from minikafka.records.build import build_batch
from minikafka.records.control import EndTxnMarker, build_end_txn_marker
from minikafka.records.recompress import Codec, recompress
from minikafka.records.record import Record
from minikafka.records.validate import BatchLimits
from minikafka.storage.config import LogConfig
from minikafka.storage.dump import DumpedBatch, dump_log, dump_producers, index_problems
from minikafka.storage.epochs import EpochEntry
from minikafka.storage.errors import EndsMayBeGone, StartsInsideBatch
from minikafka.storage.examination import DirectoryFacts, Findings, Severity, examine_partition
from minikafka.storage.last_stop import LastStop
from minikafka.storage.log import Log

TOPIC = TopicPartition("t", 0)
REFUSALS = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
    }
)
"""What a producer may be told."""
CODECS = (None, None, None, *(Codec(codec) for codec in Compression))


class Replica:
    """One log, on a disk of its own, through kills and restarts."""

    def __init__(self, config: LogConfig) -> None:
        self.platter = SimulatedDisk()
        self.config = config
        self.disk = self.platter.mount()
        self.log = Log.open(self.disk, "/t-0", TOPIC, config)

    def reopen(self, high_watermark: int, *, kills: bool, without_indexes: bool = False) -> None:
        """Stop and start, and find the same log."""
        log = self.log
        log.commit()
        before = self._state()
        if not kills:
            log.close()
        self.platter.kill()
        self.disk = self.platter.mount()
        if without_indexes:
            for name in self.disk.listdir("/t-0"):
                if name.endswith((".index", ".timeindex")):
                    self.disk.unlink(f"/t-0/{name}")
        stop = LastStop(log.log_start_offset, log.recovery_point, high_watermark, is_clean=not kills, was_killed=kills)
        self.log = Log.open(self.disk, "/t-0", TOPIC, self.config, last_stop=stop)
        self.log.first_dirty_offset = max(self.log.first_dirty_offset, log.first_dirty_offset)  # a checkpoint has it
        assert self.log.corruption is None, self.log.corruption
        after = self._state()
        for name, was in before.items():
            assert after[name] == was, (name, was, after[name])

    def configure(self, config: LogConfig) -> None:
        self.config = self.log.config = config

    def data(self, start: int | None = None) -> bytes:
        """All batches from ``start``, by default the log start."""
        log, parts = self.log, []
        offset = log.log_start_offset if start is None else start
        while offset < log.log_end_offset:
            data = log.read(offset, 1 << 20).read()
            if not data:
                break
            parts.append(data)
            offset = max(header.next_offset for _, header in iter_batches(data))
        return b"".join(parts)

    def times(self) -> list[object]:
        """What ListOffsets answers for some times."""
        wanted = (0, 1, NOW_MS - 5_000, NOW_MS, NOW_MS + 10_000, NOW_MS + 3_600_000, INT64_MAX)
        log = self.log
        found = [*(offset_for_timestamp(log, at) for at in wanted), offset_of_max_timestamp(log)]
        for answer in filter(None, found):
            assert -INT64_MAX - 1 <= answer.timestamp <= INT64_MAX
            assert log.log_start_offset <= answer.offset < log.log_end_offset
        return [None if answer is None else answer[:2] for answer in found]

    def examine(self) -> None:
        """The verbs that look at files have nothing to say of what is a producer's."""
        findings = Findings()
        facts = DirectoryFacts(
            recovery_points={TOPIC: self.log.recovery_point},
            log_starts={TOPIC: self.log.log_start_offset},
            first_dirty={TOPIC: self.log.first_dirty_offset},
        )
        examine_partition(self.disk, "/t-0", TOPIC, facts, findings)
        damage = [each for each in findings.found if each.severity is Severity.DAMAGE]
        damage = [each for each in damage if each.path != "/t-0/partition.metadata"]  # its directory makes that
        if self.log.log_start_offset > self.log.segments[0].base_offset:  # what is before it may or may not count
            damage = [each for each in damage if not each.path.endswith(".snapshot")]
        assert not damage, damage
        examine_partition(self.disk, "/t-0", TOPIC, facts, Findings(), decodes=True)
        whole = {f"/t-0/{each.base_offset:020}.log" for each in self.log.segments.closed if each.is_index_written}
        for name in self.disk.listdir("/t-0"):
            path = f"/t-0/{name}"
            if name.endswith(".log"):
                for dumped in dump_log(self.disk, path):
                    assert isinstance(dumped, DumpedBatch), dumped
                    assert dumped.is_valid
                    dumped.marker()
            elif name.endswith(".snapshot"):
                dump_producers(self.disk, path)
            if path in whole and self.disk.exists(path.replace(".log", ".index")):
                assert not index_problems(self.disk, path)

    def _state(self) -> dict[str, object]:
        log = self.log
        epochs = [*log.epoch_entries, EpochEntry(0, log.log_end_offset)]
        producers = {
            entry.producer_id: (entry.epoch, entry.last_sequence, entry.last_offset, entry.current_txn_first_offset)
            for entry in log.producers.entries
            if entry.last_offset >= log.log_start_offset  # of others it depends on the segments that are left
        }
        return {
            "bounds": (log.log_start_offset, log.log_end_offset),
            "epochs": [
                each
                for each, end in pairwise(epochs)
                if each.epoch and max(log.log_start_offset, each.start_offset) < end.start_offset
            ],
            "producers": producers,
            "open": [each for each in log.producers.open_transactions if each[0] >= log.log_start_offset],
            "data": self.data(),
            "times": self.times(),
        }


class Scene:
    """A partition with two replicas, random work on it, and what must hold all the time."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(seed)
        self._hostile = Hostile(rng)
        self.taken = self.refused = 0
        self._config = {
            "segment_bytes": rng.choice((700, 3_000, 1 << 20)),
            "index_interval_bytes": rng.choice((0, 100, 4096)),
            "min_cleanable_dirty_ratio": 0.0,
            "delete_retention_ms": rng.choice((0, 1_000, 1_000_000)),
            "cleanup_policy": frozenset({"compact"}) if rng.random() < 0.6 else frozenset({"delete"}),
            "log_append_time": rng.random() < 0.15,
            "retention_ms": -1,
        }
        self._codec = rng.choice(CODECS)
        self.leader, self.follower = Replica(self._made()), Replica(self._made())
        self.leader.log.begin_epoch(0)
        self._epoch = 0
        self._honest: dict[int, tuple[bytes, bytes | None]] = {}  # by offset
        self._count = 0
        self._now_ms = NOW_MS
        self._committed = 0  # the high watermark
        self._was_cleaned = False

    def run(self, steps: int) -> None:
        """Random steps; then all that can be read is."""
        rng = self.rng
        works = [
            *(self.attack,) * 30, *(self.write,) * 6, *(self.mark,) * 6, *(self.replicate,) * 5, *(self.roll,) * 3,
            *(self.clean,) * 6, self.restart, self.restart, self.cut, self.delete, self.configure, self.expire,
        ]  # fmt: skip
        for _ in range(steps):
            rng.choice(works)()
        self.replicate()
        self.check()
        self.restart()
        self._committed = self.leader.log.log_end_offset
        self.clean()
        self.check()

    # -- work -------------------------------------------------------------------------------------------------------

    def attack(self) -> None:
        log = self.leader.log
        batch = self._hostile.batch(log.producers)
        if self._produce(batch):
            self.taken += 1
        else:
            self.refused += 1

    def write(self) -> None:
        """Honest records, each with a key that others do not have."""
        records = []
        for _ in range(self.rng.randrange(1, 4)):
            self._count += 1
            value = None if self.rng.random() < 0.1 else b"honest %d" % self._count
            records.append(Record(0, self._now_ms, b"honest-%d" % self.rng.randrange(4), value))
        end = self.leader.log.log_end_offset
        assert self._produce(build_batch(records, compression=self.rng.choice(list(Compression))))
        self._honest |= {end + at: (cast(bytes, each.key), each.value) for at, each in enumerate(records)}

    def mark(self) -> None:
        """The coordinator ends a transaction."""
        log, rng = self.leader.log, self.rng
        transactions = log.producers.open_transactions
        if not transactions:
            return
        _first, producer_id = rng.choice(transactions)
        entry = log.producers.get(producer_id)
        assert entry is not None
        marker = EndTxnMarker(rng.random() < 0.5, 0)
        batch = build_end_txn_marker(producer_id, entry.epoch, marker, timestamp=self._now_ms)
        log.stage(memoryview(batch), parse_header(batch), leader_epoch=self._epoch, wall_ms=self._now_ms)
        log.commit()

    def replicate(self) -> None:
        """The follower fetches all."""
        leader, follower = self.leader.log, self.follower.log
        follower.begin_following()
        while follower.log_end_offset < leader.log_end_offset:
            before = follower.log_end_offset
            if before < leader.log_start_offset:
                follower.truncate_fully_and_start_at(leader.log_start_offset)
                continue
            data = bytearray(leader.read(before, self.rng.choice((1, 1_000, 1 << 20))).read())
            try:
                follower.append_as_follower(
                    memoryview(data), leader_epoch=self._epoch, end_offset=leader.log_end_offset, wall_ms=self._now_ms
                )
            except StartsInsideBatch as error:
                follower.truncate_fully_and_start_at(error.base_offset)
                follower.append_as_follower(memoryview(data), wall_ms=self._now_ms)
            except EndsMayBeGone as error:
                follower.truncate_to(error.offset)
                continue
            assert follower.log_end_offset > before, "it makes progress"
        follower.maybe_increment_log_start_offset(leader.log_start_offset)
        self._committed = self.rng.choice((self._committed, leader.log_end_offset))
        assert follower.corruption is None

    def roll(self) -> None:
        for replica in self._some():
            replica.log.roll()
            if self.rng.random() < 0.7:
                replica.log.flush()

    def clean(self) -> None:
        self._now_ms += self.rng.choice((0, 10, 2_000_000))
        for replica in self._some():
            if replica.log.config.is_compacted:
                replica.log.roll()
                replica.log.flush()
                compact(replica.log, self._committed, self._now_ms)
                self._was_cleaned = True
                assert replica.log.corruption is None

    def restart(self) -> None:
        for replica in self._some():
            kills = self.rng.random() < 0.5
            replica.reopen(
                self._committed,
                kills=kills,
                without_indexes=self.rng.random() < 0.4,
            )

    def cut(self) -> None:
        """The follower drops what is not committed; a new epoch begins."""
        log = self.follower.log
        log.truncate_to(self.rng.randint(self._committed, log.log_end_offset))
        assert log.corruption is None
        self._epoch += 1
        self.leader.log.begin_epoch(self._epoch)

    def delete(self) -> None:
        """DeleteRecords."""
        log = self.leader.log
        self._end_all()
        if self.rng.random() < 0.5:
            start = self.rng.randint(log.log_start_offset, log.log_end_offset)
            log.delete_records(start, log.log_end_offset)
            for replica in self._some():
                delete_old_segments(replica.log, replica.log.log_start_offset, self._now_ms)

    def expire(self) -> None:
        """Retention by time, on both."""
        self._end_all()
        if self.rng.random() < 0.3:
            self._config["retention_ms"] = self.rng.choice((-1, 0, 5_000))
            self._apply()
        for replica in (self.leader, self.follower):
            if replica.config.deletes_old_segments:
                delete_old_segments(replica.log, self.leader.log.log_end_offset, self._now_ms)
        start = max(self.leader.log.log_start_offset, self.follower.log.log_start_offset)
        self.leader.log.maybe_increment_log_start_offset(start)
        self._config["retention_ms"] = -1
        self._apply()

    def configure(self) -> None:
        """The topic gets other settings."""
        policies = ({"compact"}, {"delete"}, {"compact", "delete"})
        self._config["cleanup_policy"] = frozenset(self.rng.choice(policies))
        self._config["log_append_time"] = self.rng.random() < 0.15
        self._codec = self.rng.choice(CODECS)
        self._apply()

    # -- what must hold ---------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Both replicas can be read to their ends, and say the same."""
        leader, follower = self.leader, self.follower
        assert leader.log.log_end_offset == follower.log.log_end_offset
        if not self._was_cleaned:
            assert leader.data() == follower.data(leader.log.log_start_offset)
            if leader.log.log_start_offset == follower.log.log_start_offset:
                assert leader.times() == follower.times()
        for replica in (leader, follower):
            self._check_one(replica)

    def _check_one(self, replica: Replica) -> None:
        log, start = replica.log, replica.log.log_start_offset
        data = replica.data()
        if data:
            last = [header for _, header in iter_batches(data)][-1]
            assert last.next_offset <= log.log_end_offset
            assert last.next_offset == log.log_end_offset or self._was_cleaned
        read = {record.offset: (record.key, record.value) for record in check_readers(data, start, self.rng)}
        latest = {key: offset for offset, (key, _value) in self._honest.items()}
        for offset, (key, value) in self._honest.items():
            if offset >= start and (not self._was_cleaned or (latest[key] == offset and value is not None)):
                assert read[offset] == (key, value), f"an honest record is gone: {offset}"
            assert read.get(offset, (key, value)) == (key, value)
        self._check_committed(replica, data)
        replica.times()
        replica.examine()

    def _check_committed(self, replica: Replica, data: bytes) -> None:
        log = replica.log
        stable = log.last_stable_offset(log.log_end_offset)
        job = log.aborted.prepare(log.log_start_offset, log.log_end_offset)
        if job is not None:
            job.run()
            log.complete_read(job)
        aborted = log.aborted.between(log.log_start_offset, log.log_end_offset)
        assert aborted is not None
        whole = b"".join(
            data[position : position + header.size_in_bytes]
            for position, header in iter_batches(data)
            if header.next_offset <= stable
        )
        told = [(each.producer_id, each.first_offset) for each in aborted]
        committed = {record.offset for record in consume(whole, log.log_start_offset, self.rng, told)[0]}
        for offset in self._honest:
            if log.log_start_offset <= offset < stable and not self._was_cleaned:
                assert offset in committed, "an honest record is not told to readers of committed ones"

    def _end_all(self) -> None:
        """What is known of a transaction whose beginning is deleted depends on the segments that are left."""
        while self.leader.log.producers.open_transactions:
            self.mark()
        self.replicate()
        self._committed = self.leader.log.log_end_offset

    # -- parts ------------------------------------------------------------------------------------------------------

    def _produce(self, batch: bytearray) -> bool:
        """As the handler of Produce does it; False for a refusal."""
        log, view, has_keys, verified_at = self.leader.log, memoryview(batch), False, None
        end = log.log_end_offset
        try:
            while True:
                try:
                    header = check(
                        cast(Partition, self._partition()), view, 12, self._now_ms,
                        in_transaction=True, has_keys=has_keys, verified_at=verified_at,
                    )  # fmt: skip
                    break
                except UncheckedRecordsError as unchecked:
                    unchecked.check(view, parse_header(view))
                    has_keys = True
                except OtherCodecError as other:
                    view = memoryview(recompress(view, other.codec))
                except UnverifiedError:
                    verified_at = log.producers.last_end_of(parse_header(view).producer_id)
            appended = log.stage(view, header, leader_epoch=self._epoch, wall_ms=self._now_ms)
            log.commit()
        except KafkaError as error:
            if error.code not in REFUSALS or log.log_end_offset != end:
                raise
            return False
        if not appended.duplicate:
            assert appended.base_offset == end
            assert log.log_end_offset == end + header.record_count
        return True

    def _partition(self) -> Any:
        return _Settings(self)

    def _some(self) -> list[Replica]:
        return self.rng.choice(([self.leader], [self.follower], [self.leader, self.follower]))

    def _made(self) -> LogConfig:
        return LogConfig(**self._config)  # type: ignore[arg-type]

    def _apply(self) -> None:
        for replica in (self.leader, self.follower):
            replica.configure(self._made())


class _Settings:
    """Of a partition, what a check of produced batches asks for."""

    def __init__(self, scene: Scene) -> None:
        self.log = scene.leader.log
        self.codec = scene._codec
        self.needs_keys = self.log.config.is_compacted
        by_broker = self.log.config.log_append_time
        self.batch_limits = BatchLimits(
            max_message_bytes=100_000,
            segment_bytes=self.log.config.segment_bytes,
            timestamp_type=TimestampType.LOG_APPEND_TIME if by_broker else TimestampType.CREATE_TIME,
        )
