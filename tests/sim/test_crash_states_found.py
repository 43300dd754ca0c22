"""Broken promises that the exploration of crash states has found, each by the shortest way to it."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest
from at_once import complete_move, delete_old_segments, reconcile
from crash_batches import NOW_MS, headers, read_all
from crash_compaction import CONFIG as COMPACTED_CONFIG
from crash_compaction import WHERE as COMPACTED
from crash_compaction import open_store as open_compacted
from crash_futures import futures
from crash_logs import CONFIG, TOPIC_ID, WHERE, open_store
from crash_metadata import MetadataLife
from simulator.disk import MountedDisk, Operation, SimulatedDisk
from simulator.killed import Killed
from store_checkpoints import write_checkpoints

from minikafka.records.batch import parse_header
from minikafka.records.build import build_batch
from minikafka.records.record import Record
from minikafka.storage.log import Log
from minikafka.storage.log_store import LogStore
from minikafka.storage.registration import Registrations


class DiesBefore:
    """A hook that kills the process before the ``turn``-th operation of that kind on such a path."""

    def __init__(self, platter: SimulatedDisk, kind: str, path: str = "", turn: int = 1) -> None:
        self.platter = platter
        self.kind = kind
        self.path = path
        self.turn = turn

    def __call__(self, operation: Operation) -> None:
        if operation.kind == self.kind and self.path in operation.path:
            self.turn -= 1
            if not self.turn:
                self.platter.kill()
                raise Killed


class Worst:
    """The choices of a power cut that takes all it can."""

    def randrange(self, stop: int, /) -> int:
        return 0


def store_on(disk: MountedDisk) -> LogStore:
    return open_store(disk, Random(1))


def append(log: Log, value: bytes, epoch: int = 0) -> None:
    data = build_batch([Record(0, NOW_MS, b"key", value)])
    log.stage(memoryview(data), parse_header(data), leader_epoch=epoch, wall_ms=NOW_MS)
    log.commit()


def started(platter: SimulatedDisk, hook: DiesBefore | None = None) -> Log:
    """The log after a start."""
    log = store_on(platter.mount(before=hook)).get(WHERE)
    assert log is not None
    return log


@pytest.mark.spec("P2")
def test_a_topic_id_that_was_not_synced_before_a_kill_is_durable_with_the_next_flush() -> None:
    platter = SimulatedDisk()
    append(store_on(platter.mount()).create(WHERE, TOPIC_ID, CONFIG), b"a")
    platter.kill()
    started(platter).flush()
    for future in futures(platter, Random(1), 50):
        log = started(future)
        assert (log.topic_id, log.log_end_offset) == (TOPIC_ID, 1)


@pytest.mark.spec("P2")
def test_the_name_of_a_new_log_directory_is_durable_though_its_maker_was_killed() -> None:
    platter = SimulatedDisk()
    with pytest.raises(Killed):
        store_on(platter.mount(before=DiesBefore(platter, "fsync_dir", "/")))
    store_on(platter.mount()).create(WHERE, TOPIC_ID, CONFIG).flush()
    for future in futures(platter, Random(1), 50):
        assert started(future).topic_id == TOPIC_ID


@pytest.mark.spec("E1")
def test_a_truncation_that_a_kill_interrupted_does_not_come_back() -> None:
    platter = SimulatedDisk()
    log = store_on(platter.mount(before=DiesBefore(platter, "fsync", ".log", turn=2))).create(WHERE, TOPIC_ID, CONFIG)
    for value in (b"kept", b"lost", b"lost"):
        append(log, value)
    log.flush()
    with pytest.raises(Killed):
        log.truncate_to(1)
    log = started(platter)
    assert log.log_end_offset == 1
    append(log, b"new ", epoch=1)
    append(log, b"new ", epoch=1)
    expected = read_all(log)
    for future in futures(platter, Random(1), 100):
        assert expected.startswith(read_all(started(future)))


@pytest.mark.spec("P2")
def test_an_orderly_stop_is_not_remembered_twice() -> None:
    platter = SimulatedDisk()
    store = store_on(platter.mount())
    append(store.create(WHERE, TOPIC_ID, CONFIG), b"a")
    store.close({})
    with pytest.raises(Killed):
        store_on(platter.mount(before=DiesBefore(platter, "fsync_dir", "/data")))
    append(started(platter), b"b")
    for future in futures(platter, Random(1), 50):
        assert not store_on(future.mount()).was_clean


def test_an_orderly_stop_after_a_crash_leaves_right_indexes_and_epochs() -> None:
    platter = SimulatedDisk()
    append(store_on(platter.mount()).create(WHERE, TOPIC_ID, CONFIG), b"a", epoch=3)
    platter.kill()
    store_on(platter.mount()).close({})
    log = started(platter)
    assert log.epoch_for_offset(0) == 3
    assert log.disk.exists(f"{log.directory}/00000000000000000000.timeindex")


@pytest.mark.spec("P2")
def test_records_below_the_former_log_start_survive_a_crash() -> None:
    platter = SimulatedDisk()
    store = store_on(platter.mount())
    log = store.create(WHERE, TOPIC_ID, CONFIG)
    for at in range(12):
        append(log, b"%d" % at * 90)
    log.maybe_increment_log_start_offset(9)
    delete_old_segments(log, 12, NOW_MS)
    log.flush()
    write_checkpoints(store, {})
    log.truncate_to(2)
    append(log, b"after", epoch=1)
    log.flush()
    for future in futures(platter, Random(1), 50):
        log = started(future)
        assert (log.log_start_offset, log.log_end_offset) == (2, 3)


def test_epochs_of_records_that_came_back_are_known() -> None:
    platter = SimulatedDisk()
    store = store_on(platter.mount())
    log = store.create(WHERE, TOPIC_ID, CONFIG)
    for at in range(4):
        append(log, b"%d" % at, epoch=5)
    write_checkpoints(store, {})
    log.maybe_increment_log_start_offset(3)
    log.flush()
    store.directories[0].checkpoints._recovery_points.write({WHERE: 4})
    for future in futures(platter, Random(1), 50):
        log = started(future)
        for header in headers(read_all(log)):
            assert log.epoch_for_offset(header.base_offset) == 5


def test_a_high_watermark_does_not_outlive_the_records_below_it() -> None:
    platter = SimulatedDisk()
    store = store_on(platter.mount())
    log = store.create(WHERE, TOPIC_ID, CONFIG)
    log.flush()
    for _ in range(3):
        append(log, b"lost")
    write_checkpoints(store, {WHERE: 3})
    platter.lose_power(Worst())
    log = started(platter)
    assert log.log_end_offset == 0
    for _ in range(3):
        append(log, b"not committed", epoch=1)
    platter.kill()
    store = store_on(platter.mount())
    assert store.high_watermark(WHERE) == 0


@pytest.mark.spec("P2")
def test_the_lost_end_of_a_segment_of_a_compacted_log_is_noticed() -> None:
    platter = SimulatedDisk()
    log = open_compacted(platter.mount(), Random(1)).create(COMPACTED, UUID(int=9), COMPACTED_CONFIG)
    append(log, b"durable")
    log.flush()
    append(log, b"lost")
    log.roll()
    log.disk.fsync_dir(log.directory)
    platter.lose_power(Worst())
    log = open_compacted(platter.mount(), Random(1)).get(COMPACTED)
    assert log is not None
    assert log.log_end_offset == 1


@pytest.mark.spec("P1")
def test_a_vote_in_a_new_directory_is_durable() -> None:
    platter = SimulatedDisk()
    life = MetadataLife(platter.mount(), Random(1), "votes", 1)
    life.open()
    life.vote()
    for future in futures(platter, Random(1), 50):
        life.restarted(future.mount(), lost_power=True)


@pytest.mark.spec("P1")
def test_a_vote_that_is_seen_after_a_kill_is_durable() -> None:
    platter = SimulatedDisk()
    life = MetadataLife(
        platter.mount(before=DiesBefore(platter, "fsync_dir", "__cluster", turn=5)), Random(1), "votes", 1
    )
    life.open()
    life.vote()
    with pytest.raises(Killed):
        life.vote()
    life = life.restarted(platter.mount(), lost_power=False)
    for future in futures(platter, Random(1), 50):
        life.restarted(future.mount(), lost_power=True)


@pytest.mark.spec("P1")
def test_records_of_the_quorum_found_after_a_kill_are_durable_before_they_count() -> None:
    platter = SimulatedDisk()
    life = MetadataLife(platter.mount(), Random(1), "votes", 1)
    life.open()
    life.append()
    platter.kill()
    life = life.restarted(platter.mount(), lost_power=False)
    assert life.promised > 0
    for future in futures(platter, Random(1), 50):
        life.restarted(future.mount(), lost_power=True)


@pytest.mark.spec("P2")
def test_an_orderly_stop_before_registering_does_not_vouch_for_what_a_power_cut_took() -> None:
    platter = SimulatedDisk()
    store = store_on(platter.mount())
    log = store.create(WHERE, TOPIC_ID, CONFIG)
    log.flush()
    Registrations(log.disk, store, "boot 1").write(7)
    append(log, b"lost")
    platter.lose_power(Worst())
    disk = platter.mount()
    store = store_on(disk)
    assert Registrations(disk, store, "boot 2").previous_broker_epoch < 0
    store.close({})
    disk = platter.mount()
    assert Registrations(disk, store_on(disk), "boot 2").previous_broker_epoch < 0


@pytest.mark.spec("A5")
def test_a_move_that_a_later_process_completes_leaves_a_log_with_its_topic_id() -> None:
    platter, roots = SimulatedDisk(), ("/one", "/two")
    store = open_store(platter.mount(), Random(1), roots)
    log = store.create(WHERE, TOPIC_ID, CONFIG, store.directories[0])
    append(log, b"a")
    log.flush()
    store.moves.begin(WHERE, store.directories[1])
    platter.kill()
    store = open_store(platter.mount(), Random(1), roots)
    (move,) = store.moves.under_way()
    reconcile(move)
    move.append(move.next_slice(1 << 20).read())
    complete_move(store, move, 1)
    for future in futures(platter, Random(1), 50):
        store = open_store(future.mount(), Random(1), roots)
        moved = store.get(WHERE)
        assert moved is not None
        assert store.log_dir_of(WHERE) is store.directories[1]
        assert (moved.topic_id, moved.log_end_offset) == (TOPIC_ID, 1)


@pytest.mark.spec("P2")
def test_a_power_cut_leaves_no_log_of_the_quorum_in_need_of_repair() -> None:
    """A hole in what was not synced, with whole batches behind it, took the vote from every voter that had one."""
    platter = SimulatedDisk()
    life = MetadataLife(platter.mount(), Random(1), "records of the quorum", 1)
    life.open()
    life.append()
    life.flush()
    durable = life.log.log_end_offset
    for _ in range(4):
        life.append()
    ends = set()
    for future in futures(platter, Random(1), 200):
        reborn = life.restarted(future.mount(), lost_power=True)
        assert not reborn.must_repair
        ends.add(reborn.log.log_end_offset)
    assert min(ends) == durable
    assert len(ends) > 2


@pytest.mark.spec("P2")
def test_damage_to_a_synced_record_of_the_quorum_takes_the_vote_whatever_lies_behind() -> None:
    """The last record that was synced looks like a torn tail, and is none: it was acknowledged."""
    for behind in (0, 2):
        platter = SimulatedDisk()
        life = MetadataLife(platter.mount(), Random(1), "records of the quorum", 1)
        life.open()
        life.append()
        life.flush()
        platter.flip(life.log.segments.active.path(".log"), life.log.size_in_bytes - 1)
        life.rotten = 0
        for _ in range(behind):
            life.append()
        for future in futures(platter, Random(1), 50):
            assert life.restarted(future.mount(), lost_power=True).must_repair


@pytest.mark.spec("P2")
def test_records_that_were_deleted_stay_so_when_a_cut_behind_them_is_interrupted() -> None:
    """From memory alone the cut may be anywhere in its segment: the log start fell to the segment's."""
    platter = SimulatedDisk()
    store = store_on(platter.mount())
    log = store.create(WHERE, TOPIC_ID, CONFIG)
    for value in (b"a", b"b", b"c"):
        append(log, value)
    log.flush()
    log.maybe_increment_log_start_offset(1)
    write_checkpoints(store, {WHERE: 3})
    platter.kill()
    log = started(platter, DiesBefore(platter, "truncate", ".log"))
    with pytest.raises(Killed):
        log.truncate_to(2)
    assert started(platter).log_start_offset == 1
    assert started(platter.after_power_loss(Worst())).log_start_offset == 1


@pytest.mark.spec("P1")
def test_a_log_that_was_mended_is_not_damaged_again_by_the_checkpoints_of_what_it_lost() -> None:
    """A recovery point above the end of a damaged log stayed in its file until the next checkpoint."""
    platter = SimulatedDisk()
    store = store_on(platter.mount())
    log = store.create(WHERE, TOPIC_ID, CONFIG)
    append(log, b"a")
    append(log, b"b")
    log.flush()
    write_checkpoints(store, {})
    platter.kill()
    platter.inode(f"{log.directory}/{0:020d}.log").become(b"")
    log = started(platter)
    assert log.corruption is not None
    append(log, b"a")
    log.refetched()
    platter.kill()
    assert started(platter).corruption is None


def test_indexes_that_a_start_made_anew_are_durable_with_its_first_flush() -> None:
    platter = SimulatedDisk()
    store = store_on(platter.mount())
    append(store.create(WHERE, TOPIC_ID, CONFIG), b"a")
    store.close({})
    log = started(platter)
    log.roll()
    append(log, b"b")
    platter.kill()
    done: list[Operation] = []
    store_on(platter.mount(before=done.append))
    for kind in (".index", ".timeindex"):
        changes = [operation.kind for operation in done if operation.path.endswith(f"{0:020d}{kind}")]
        assert changes[-1:] == ["fsync"]


@pytest.mark.spec("P5")
def test_a_first_segment_that_is_lost_after_the_first_roll_is_missed() -> None:
    """Whole clusters found it (media, seed 9055): who lost it led, and 32 acknowledged records were gone."""
    platter = SimulatedDisk()
    disk = platter.mount()
    store = open_store(disk, Random(1), boot_id="boot")
    Registrations(disk, store, "boot").write(7)
    log = store.create(WHERE, TOPIC_ID, CONFIG)
    append(log, b"acknowledged")
    log.roll()
    append(log, b"behind")
    platter.kill()
    disk = platter.mount()
    for kind in (".log", ".snapshot"):
        disk.unlink(f"{log.directory}/{0:020d}{kind}")
    store = open_store(disk, Random(1), boot_id="boot")
    assert Registrations(disk, store, "boot").whole_replicas() == {}
