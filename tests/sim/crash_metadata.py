"""A life of the metadata quorum's files: records, votes, snapshots, as a node's driver writes them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Hashable
from posixpath import basename
from random import Random
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

from crash_batches import NOW_MS
from simulator.disk import MountedDisk
from simulator.disk.damage import damage
from store_checkpoints import write_checkpoints

from minikafka.broker.drivers.metadata_log import MetadataLog
from minikafka.broker.drivers.metadata_recovery import QUORUM_STATE
from minikafka.broker.drivers.metadata_snapshots import encode_snapshot
from minikafka.model import CLUSTER_METADATA_TOPIC, CLUSTER_METADATA_TOPIC_ID, OffsetAndEpoch, TopicPartition
from minikafka.raft import ElectionState
from minikafka.raft import effects as do
from minikafka.records.batch import iter_batches
from minikafka.records.build import build_batch
from minikafka.records.record import Record
from minikafka.storage.config import NEVER, UNLIMITED, LogConfig
from minikafka.storage.durable_end import DURABLE_END_FILE
from minikafka.storage.log import Log
from minikafka.storage.log_store import LogStore
from minikafka.storage.positions import find
from minikafka.storage.scan import scan_headers

T = TypeVar("T")

METADATA_PARTITION = TopicPartition(CLUSTER_METADATA_TOPIC, 0)
CONFIG = LogConfig(
    retention_ms=UNLIMITED,
    retention_bytes=UNLIMITED,
    segment_ms=NEVER,
    segment_bytes=600,
    index_interval_bytes=150,
    notes_durable_end=True,
)
MIXES: dict[str, dict[str, int]] = {
    "records of the quorum": {"append": 6, "fetch": 3, "flush": 4, "truncate": 2, "vote": 1, "checkpoint": 1},
    "votes": {"vote": 6, "append": 2, "flush": 1, "stop_and_start": 1},
    "damage to the quorum's log": {
        "append": 4,
        "fetch": 4,
        "flush": 4,
        "rot": 1,
        "vote": 1,
        "snapshot": 1,
        "cut_start": 1,
        "spoil": 2,
    },
    "snapshots": {"append": 6, "flush": 3, "snapshot": 3, "cut_start": 2, "install": 1, "checkpoint": 1, "vote": 1},
}


class Entry(NamedTuple):
    """A metadata record."""

    offset: int
    epoch: int
    value: bytes


class Done(Generic[T]):
    """Awaited, it has a result at once: there is no thread."""

    def __init__(self, result: T) -> None:
        self._result = result

    def __await__(self) -> Generator[None, None, T]:
        return self._result
        yield


def result_of(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run what waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError("it waits")


def state_at(offset: int) -> list[bytes]:
    """The values of a snapshot's records."""
    return [b"state %d.%d" % (offset, part) + bytes(200 * part) for part in range(3)]


class MetadataLife:
    """See the module. Records below ``promised`` were reported durable; those below ``committed`` survive a kill."""

    def __init__(self, disk: MountedDisk, rng: Random, mix: str, steps: int) -> None:
        self.disk = disk
        self.rng = rng
        self.mix = mix
        self.steps = steps
        self.doing = "start"
        self.is_flushing = False
        self.files: MetadataLog | None = None
        self.store: LogStore | None = None
        self.records: list[Entry] = []
        self.bases: set[int] = set()  # where batches begin
        self.committed = 0
        self.promised = 0
        self.high_watermark = 0
        self.epoch = 0
        self.votes = {ElectionState()}  # what quorum-state may say
        self.snapshots: dict[OffsetAndEpoch, bool] = {}  # True: it was reported durable
        self.start = 0  # the log may begin there, not later
        self.must_repair = False
        self.repaired_from = 0  # a node whose log needs repair is not counted on for more
        self.rotten: int | None = None  # a record that was synced there went bad
        self.spoilt = ""  # another file went bad: "votes", "end" or "snapshot"

    def promises(self) -> Hashable:
        return (
            hash(tuple(self.records)),
            self.committed,
            self.promised,
            self.start,
            self.must_repair,
            self.rotten,
            self.spoilt,
            tuple(sorted(map(str, self.votes))),
            tuple(self.snapshots.items()),
        )

    def view(self) -> Hashable:
        log = self.log
        records = self.entries(log.log_start_offset, log.log_end_offset)
        snapshot = self.newest()
        return tuple(records), str(snapshot), tuple(self.votes), log.log_start_offset, log.log_end_offset

    def entries(self, start: int, end: int) -> list[Entry]:
        """The records that the log has."""
        return [
            Entry(batch.next_offset - len(values) + at, batch.leader_epoch, value)
            for batch in self.files_.batches(start, end)
            for values in [list(batch.values)]
            for at, value in enumerate(values)
        ]

    def newest(self) -> tuple[OffsetAndEpoch, list[bytes]] | None:
        """The newest snapshot there is."""
        found: tuple[OffsetAndEpoch, list[bytes]] | None = result_of(self.files_.latest_snapshot())
        return found

    # -- restarts -----------------------------------------------------------------------------------------------------

    def restarted(self, disk: MountedDisk, *, lost_power: bool) -> MetadataLife:
        life = MetadataLife(disk, self.rng, self.mix, 6)
        election, must_repair = life.open()
        has_forgotten = self.spoilt == "votes" and election == ElectionState()
        assert election in self.votes or has_forgotten, "a vote that was answered is remembered"
        if has_forgotten and not life.log.log_end_offset:
            assert life.files_.is_new, "a vote without a record is provisional"
            has_forgotten = False
        is_damaged = self.must_repair or self.rotten is not None or has_forgotten or self.spoilt == "end"
        is_cut_loose = self.spoilt == "snapshot" and self.start > 0
        assert not must_repair or is_damaged or is_cut_loose, "neither a kill nor a power cut makes the log need repair"
        is_mended = self.doing == "unmark"
        assert must_repair or is_mended or not is_damaged, "a node that lost what it promised does not vote"
        self._check_snapshots(life)
        must_end = self.promised if lost_power else self.committed
        limits = [self.repaired_from] * self.must_repair + [self.rotten] * (self.rotten is not None)
        self._check_records(life, min([must_end, *limits, *[0] * (must_repair and is_cut_loose)]))
        life._inherit(self, election, must_repair)
        return life

    def _check_snapshots(self, life: MetadataLife) -> None:
        found = life.newest()
        if found is not None:
            assert found[0] in self.snapshots, "a snapshot is one that was taken"
            assert found[1] == state_at(found[0].offset), "a snapshot is whole or absent"
        newest = max((snapshot.offset for snapshot, is_promised in self.snapshots.items() if is_promised), default=0)
        assert newest <= (0 if found is None else found[0].offset), "a snapshot that was reported is there"

    def _check_records(self, life: MetadataLife, must_end: int) -> None:
        log = life.log
        start, end = log.log_start_offset, log.log_end_offset
        found = life.newest()
        covered = 0 if found is None else found[0].offset
        expected = [record for record in self.records if start <= record.offset < end]
        served = life.entries(start, end)
        assert served == expected, "the records of the log are those that were written"
        assert start == 0 or start <= covered <= end, "what is not in the log is in a snapshot that joins it"
        assert max(covered, end) >= must_end, "what was promised is there"
        assert start <= max(self.start, covered), "no record is gone that no snapshot replaces"
        if found is not None and start < covered:
            assert log.epoch_for_offset(covered - 1) == found[0].epoch, "snapshot and log agree"

    def _inherit(self, former: MetadataLife, election: ElectionState, must_repair: bool) -> None:
        log = self.log
        end = log.log_end_offset
        self.records = [record for record in former.records if log.log_start_offset <= record.offset < end]
        self.bases = {base for base in former.bases if base < end}
        self.committed = self.promised = end  # the machine takes what a start finds for synced
        self.high_watermark = min(former.high_watermark, end)
        self.epoch = max(election.epoch, log.latest_epoch, 0)
        self.votes = {election}
        newest = self.newest()
        self.snapshots = {} if newest is None else {newest[0]: True}
        self.start = log.log_start_offset
        self.must_repair = must_repair
        self.repaired_from = end

    def open(self) -> tuple[ElectionState, bool]:
        """Start as a node does; the vote it remembers, and whether it must not vote."""
        self.store = LogStore.open(
            self.disk,
            ["/data"],
            node_id=1,
            cluster_id="cluster",
            new_uuid=lambda: UUID(int=self.rng.getrandbits(128)),
            config_for=lambda _where: CONFIG,
        )
        log = self.store.get(METADATA_PARTITION)
        if log is None:
            log = self.store.create(METADATA_PARTITION, CLUSTER_METADATA_TOPIC_ID, CONFIG)
        self.files = MetadataLog(log.directory, log, self.disk, self._in_thread, self._in_thread, lambda: NOW_MS)
        _summary, election, must_repair = self.files.recover()
        return election, must_repair

    def _in_thread(self, act: Callable[[], Any]) -> Any:
        """Sometimes the node goes on with other work before the thread gets its turn."""
        if self.is_flushing:
            self.is_flushing = False
            if self.epoch and self.rng.random() < 0.3:
                self.append()
        return Done(act())

    @property
    def files_(self) -> MetadataLog:
        assert self.files is not None
        return self.files

    @property
    def log(self) -> Log:
        assert self.store is not None
        log = self.store.get(METADATA_PARTITION)
        assert log is not None
        return log

    # -- work ---------------------------------------------------------------------------------------------------------

    def work(self) -> None:
        if self.files is None:
            self.open()
        if self.must_repair:
            self.repair()
        mix = MIXES[self.mix]
        acts: list[Callable[[], None]] = [getattr(self, act) for act in mix]
        for act in self.rng.choices(acts, list(mix.values()), k=self.steps):
            self.doing = act.__name__
            act()
            if self.spoilt:
                break  # what a start makes of it is of interest

    def vote(self) -> None:
        """In a new epoch; or for a leader that has become known."""
        self.epoch += 1
        state = ElectionState(self.epoch, self.rng.choice([None, 1, 2, 3]), None)
        self.votes.add(state)
        result_of(self.files_.persist_election(state))
        self.votes = {state}

    def _values(self) -> tuple[bytes, ...]:
        return tuple(self.rng.randbytes(self.rng.randrange(1, 120)) for _ in range(self.rng.randint(1, 3)))

    def append(self) -> None:
        """As leader of the present epoch."""
        if not self.epoch:
            self.vote()
        base, values = self.log.log_end_offset, self._values()
        self.bases.add(base)
        self.records += [Entry(base + at, self.epoch, value) for at, value in enumerate(values)]
        self.files_.append(do.Append(base, self.epoch, values))
        self.committed = self.log.log_end_offset

    def fetch(self) -> None:
        """As follower: two batches in one write."""
        if not self.epoch:
            self.vote()
        base, data = self.log.log_end_offset, b""
        for _ in range(2):
            values = self._values()
            offset = self.records[-1].offset + 1 if self.records and self.records[-1].offset >= base else base
            self.records += [Entry(offset + at, self.epoch, value) for at, value in enumerate(values)]
            self.bases.add(offset)
            batch = [Record(at, NOW_MS, None, value) for at, value in enumerate(values)]
            data += build_batch(batch, base_offset=offset, leader_epoch=self.epoch)
        end = OffsetAndEpoch(self.records[-1].offset + 1, self.epoch)
        self.files_.append(do.AppendFetched(base, data, end))
        self.committed = self.log.log_end_offset

    def flush(self) -> None:
        end = self.log.log_end_offset
        self.is_flushing = True
        result_of(self.files_.flush())
        self.promised = max(self.promised, end)
        committed = self.rng.randint(self.high_watermark, self.promised)
        self.high_watermark = max(self.high_watermark, self._batch_start(committed))

    def _batch_start(self, offset: int) -> int:
        """Where the batch that holds a record begins: what counts as committed are whole batches."""
        is_there = any(record.offset == offset for record in self.records)
        return max((base for base in self.bases if base <= offset), default=offset) if is_there else offset

    def rot(self) -> None:
        """The disk damages a record that it said was durable."""
        self.flush()
        durable = [record.offset for record in self.records if record.offset < self.promised]
        if self.rotten is not None or not durable:
            return
        offset = self.rng.choice(durable)
        segment = self.log.segments[self.log.segments.index_of(offset)]
        found = find(segment, offset)
        assert found is not None
        path = segment.path(".log")
        if not self.disk.platter.inode(path).is_dirty:
            at = self.rng.choice((7, 15, found[1].size_in_bytes - 1))  # no checksum is of offset and epoch
            self.disk.platter.flip(path, found[0] + at)
            self.rotten = found[1].base_offset

    def spoil(self) -> None:
        """The disk damages another file. Then the node dies in the middle of a vote, or lives."""
        if self.rotten is None and self.epoch and not self.must_repair:
            self.flush()
            ways = {"votes": self._spoil_votes, "end": self._spoil_end, "snapshot": self._spoil_snapshot}
            way = "snapshot" if self.snapshots else self.rng.choice(("votes", "end"))
            if ways[way]():
                self.spoilt = way
                self.vote()

    def _spoil_votes(self) -> bool:
        path = f"{self.log.directory}/{QUORUM_STATE}"
        content = self.disk.platter.inode(path).content
        digits = [at for at, byte in enumerate(content) if chr(byte).isdigit() and at < content.index(b"}")]
        self._change(path, self.rng.choice(digits), lambda digit: digit ^ 1)  # another digit
        return True

    def _spoil_end(self) -> bool:
        """The note of how far the log was synced goes, and with it the end of the log, between two batches."""
        damage(self.disk.platter, f"{self.log.directory}/{DURABLE_END_FILE}", "lost", self.rng)
        segment = self.log.segments.active
        starts = [header.base_offset for _, header in scan_headers(segment.file, 0, segment.size)]
        if starts and not self.disk.platter.inode(segment.path(".log")).is_dirty:
            self.rotten = self.rng.choice(starts)
            found = find(segment, self.rotten)
            assert found is not None
            damage(self.disk.platter, segment.path(".log"), "cut", self.rng, at=found[0])
        return True

    def _spoil_snapshot(self) -> bool:
        """The newest is cut between two batches, or has the name of another."""
        newest = max(self.snapshots, default=None)
        if newest is None:
            return False
        path = f"{self.log.directory}/{newest.offset:020d}-{newest.epoch:010d}.checkpoint"
        if self.rng.random() < 0.5:
            content = self.disk.platter.inode(path).content
            at = self.rng.choice([0, *(position for position, _ in iter_batches(content))])
            damage(self.disk.platter, path, "cut", self.rng, at=at)
        else:
            renamed = f"{self.log.directory}/{newest.offset + self.rng.choice((1, 10**15)):020d}-{newest.epoch:010d}"
            entries = self.disk.platter.directory(self.log.directory)
            for names in (entries.entries, entries.durable):
                names[f"{basename(renamed)}.checkpoint"] = names.pop(basename(path))
        del self.snapshots[newest]
        return True

    def _change(self, path: str, at: int, change: Callable[[int], int]) -> None:
        inode = self.disk.platter.inode(path)
        content = bytearray(inode.content)
        content[at] = change(content[at])
        inode.become(content)

    def truncate(self) -> None:
        """What was not committed contradicts the leader's log."""
        bases = [record.offset for record in self.records if record.offset >= self.high_watermark]
        if not bases:
            return
        offset = self.rng.choice(bases)
        low = self._batch_start(offset)
        self.committed, self.promised = min(self.committed, low), min(self.promised, low)
        self.high_watermark = min(self.high_watermark, low)
        result_of(self.files_.truncate_to(offset))
        self.records = [record for record in self.records if record.offset < self.log.log_end_offset]
        self.bases = {base for base in self.bases if base < self.log.log_end_offset}
        self.committed = self.promised = self.log.log_end_offset
        self.vote()

    def snapshot(self) -> None:
        """Of what is committed."""
        offset = self.high_watermark
        epoch = self.files_.epoch_before(offset)
        if offset <= self.log.log_start_offset or epoch < 0:
            return
        snapshot_id = OffsetAndEpoch(offset, epoch)
        self.snapshots.setdefault(snapshot_id, False)
        result_of(self.files_.write_snapshot(snapshot_id, state_at(offset)))
        self.snapshots[snapshot_id] = True

    def cut_start(self) -> None:
        """The log begins at the newest snapshot."""
        offset = max((snapshot.offset for snapshot, is_promised in self.snapshots.items() if is_promised), default=0)
        self.start = max(self.start, offset)
        if offset:
            result_of(self.files_.advance_log_start(offset))

    def install(self) -> None:
        """The leader's log begins behind the end of this one."""
        offset = self.log.log_end_offset + self.rng.randrange(1, 20)
        self.epoch += 1
        snapshot_id = OffsetAndEpoch(offset, self.epoch)
        self.vote()
        data = encode_snapshot(snapshot_id, state_at(offset), NOW_MS)
        half = len(data) // 2
        self.files_.write_snapshot_part(do.WriteSnapshot(snapshot_id, 0, bytes(data[:half])))
        self.files_.write_snapshot_part(do.WriteSnapshot(snapshot_id, half, bytes(data[half:])))
        self.snapshots[snapshot_id] = False
        self.start = offset
        result_of(self.files_.install_snapshot(snapshot_id))
        self.snapshots[snapshot_id] = True
        self.records = []
        self.committed = self.promised = self.high_watermark = offset

    def checkpoint(self) -> None:
        assert self.store is not None
        write_checkpoints(self.store, {METADATA_PARTITION: self.high_watermark})

    def stop_and_start(self) -> None:
        assert self.store is not None
        self.store.close({})
        election, must_repair = self.open()
        assert election in self.votes, "a vote that was answered is remembered"
        assert not must_repair, "an orderly stop does not make the log need repair"

    def repair(self) -> None:
        """The leader's records took the place of what was damaged."""
        if not self.epoch or all(state.epoch < self.epoch for state in self.votes):
            self.vote()  # the leader's epoch
        self.append()
        result_of(self.files_.flush())
        self.doing = "unmark"
        result_of(self.files_.remove_repair_mark())
        self.must_repair = False
