"""The ends of logs that a kill leaves: what they tell, and that they never tell too much."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final
from unittest.mock import Mock, patch
from uuid import UUID

import pytest
from at_once import complete_move, delete_old_segments, reconcile
from simulator.disk import KilledInside, Operation, SimulatedDisk
from simulator.killed import Killed
from storage_batches import append, batch, stage
from store_checkpoints import write_checkpoints

from minikafka.errors import KafkaError
from minikafka.model import NO_EPOCH, ZERO_TOPIC_ID, TopicPartition
from minikafka.records.batch import iter_batches
from minikafka.storage import log_ends
from minikafka.storage.config import LogConfig
from minikafka.storage.disk import Disk
from minikafka.storage.errors import StorageFailure
from minikafka.storage.log import Log
from minikafka.storage.log_ends import LOG_ENDS_FILE, LogKey, Noted, read_log_ends
from minikafka.storage.log_store import LogStore
from minikafka.storage.registration import Registrations

BOOT: Final = "boot"
ROOT: Final = "/data"
OTHER_ROOT: Final = "/more"
PATH: Final = f"{ROOT}/{LOG_ENDS_FILE}"
WHERE: Final = TopicPartition("orders", 0)
TOPIC_ID: Final = UUID(int=7)
KEY: Final = LogKey(TOPIC_ID, 0)
CONFIG: Final = LogConfig(segment_bytes=400, index_interval_bytes=100)
DIRECTORY: Final = f"{ROOT}/{WHERE}"
HEADER_BYTES: Final = 64
SLOT_BYTES: Final = 64
NOTE_BYTES: Final = 24
UNUSED: Final = range(20, 24)  # of a slot
START: Final = range(24, 40)
EPOCH: Final = range(40, 48)


def open_store(disk: Disk, *roots: str, boot_id: str | None = BOOT, registers: bool = True) -> LogStore:
    """A start, of a process that is registered then."""
    uuids = iter(range(99, 10_000))
    store = LogStore.open(
        disk,
        roots or [ROOT],
        node_id=1,
        cluster_id="c",
        new_uuid=lambda: UUID(int=next(uuids)),
        boot_id=boot_id,
        config_for=lambda _where: CONFIG,
    )
    if registers:
        Registrations(disk, store, boot_id).write(41)
    return store


def restarted(platter: SimulatedDisk, boot_id: str | None = BOOT) -> Log:
    """The log, after a kill."""
    platter.kill()
    log = open_store(platter.mount(), boot_id=boot_id).get(WHERE)
    assert log is not None
    return log


def _noted(platter: SimulatedDisk) -> Mapping[LogKey, Noted]:
    return read_log_ends(platter.mount(), ROOT, BOOT) or {}


def ends(platter: SimulatedDisk) -> dict[LogKey, int]:
    return {key: noted.end_offset for key, noted in _noted(platter).items()}


def starts(platter: SimulatedDisk) -> dict[LogKey, int | None]:
    return {key: noted.start for key, noted in _noted(platter).items()}


def epochs(platter: SimulatedDisk) -> dict[LogKey, int]:
    return {key: noted.epoch for key, noted in _noted(platter).items()}


@pytest.fixture
def platter() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def store(platter: SimulatedDisk) -> LogStore:
    return open_store(platter.mount())


@pytest.fixture
def log(store: LogStore) -> Log:
    return store.create(WHERE, TOPIC_ID, CONFIG)


# -- what is missing after a kill -------------------------------------------------------------------------------------


def active_file(disk: Disk) -> str:
    return f"{DIRECTORY}/{max(name for name in disk.listdir(DIRECTORY) if name.endswith('.log'))}"


def cut_to(disk: Disk, batches: int, more: int = 0) -> None:
    path = active_file(disk)
    data = disk.read_bytes(path)
    disk.write_bytes(path, data[: [at for at, _header in iter_batches(data)][batches] + more])


DAMAGES: Final[dict[str, Callable[[Disk], None]]] = {
    "removed": lambda disk: disk.unlink(active_file(disk)),
    "emptied": lambda disk: disk.write_bytes(active_file(disk), b""),
    "cut between two batches": lambda disk: cut_to(disk, 1),
    "cut inside a batch": lambda disk: cut_to(disk, 1, more=20),
}


@pytest.mark.spec("P1")
@pytest.mark.spec("P5")
@pytest.mark.parametrize("is_rolled", [False, True], ids=["the only segment", "with older segments"])
@pytest.mark.parametrize("how", DAMAGES)
def test_a_log_that_lost_its_end_after_a_kill_is_damaged(
    platter: SimulatedDisk, log: Log, how: str, is_rolled: bool
) -> None:
    """No checkpoint was written yet. The node claims the replica no more, neither now nor after the next start."""
    for number in range(4):
        append(log, b"%d" % number * 20)
    if is_rolled:
        log.roll()
        for number in range(2):
            append(log, b"%d" % number * 20)
    end = log.log_end_offset
    DAMAGES[how](log.disk)
    for _ in range(2):
        platter.kill()
        disk = platter.mount()
        store = open_store(disk)
        assert TOPIC_ID not in Registrations(disk, store, BOOT).whole_replicas()
        (log,) = store
        assert log.log_end_offset < end
        assert log.corruption is not None
        assert log.corruption.offset <= log.log_end_offset


@pytest.mark.spec("P5")
@pytest.mark.parametrize("is_stopped", [False, True], ids=["killed", "stopped"])
@pytest.mark.parametrize("at", range(4))
def test_an_offset_that_went_wrong_is_damage(
    platter: SimulatedDisk, store: LogStore, log: Log, at: int, is_stopped: bool
) -> None:
    """No checksum covers it. The last batch seemed to lie behind a gap, as compaction leaves them."""
    for number in range(4):
        append(log, b"%d" % number)
    if is_stopped:
        store.close({}, broker_epoch=41)
    path, whole = active_file(log.disk), platter.mount().read_bytes(active_file(log.disk))
    position = [position for position, _header in iter_batches(whole)][at]
    for bit in (0, 1, 2, 5, 31, 40, 62, 63):
        copy = platter.copy()
        data = bytearray(whole)
        data[position + 7 - bit // 8] ^= 1 << bit % 8
        copy.mount().write_bytes(path, data)
        found = restarted(copy)
        if is_stopped and at < 3 and found.corruption is None:  # it is looked at when it is read
            with pytest.raises(KafkaError):
                found.read(at, 1)
        assert found.corruption is not None, bit
        assert found.corruption.offset <= at, bit


@pytest.mark.spec("P5")
@pytest.mark.parametrize("how", ["killed", "killed after a flush", "stopped"])
@pytest.mark.parametrize("at", range(4))
def test_an_epoch_that_went_wrong_is_damage(
    platter: SimulatedDisk, store: LogStore, log: Log, at: int, how: str
) -> None:
    """No checksum covers it. A wrong last epoch passed for one that the next leader has there, too.

    After an orderly stop only the last batch is looked at before the log is read.
    """
    log.begin_epoch(5)
    for number in range(4):
        stage(log, batch(b"%d" % number), leader_epoch=5)
    log.commit()
    if how == "killed after a flush":
        log.flush()
    if how == "stopped":
        store.close({}, broker_epoch=41)
    path, whole = active_file(log.disk), platter.mount().read_bytes(active_file(log.disk))
    position = [position for position, _header in iter_batches(whole)][at]
    for bit in (1, 3, 5, 30) if at < 3 else (0, 1, 2, 3, 5, 30):
        copy = platter.copy()
        data = bytearray(whole)
        data[position + 15 - bit // 8] ^= 1 << bit % 8
        copy.mount().write_bytes(path, data)
        found = restarted(copy)
        if at == 3 or how != "stopped":
            assert found.corruption is not None, bit
            assert found.corruption.offset == at, bit
            assert found.latest_epoch in (5, NO_EPOCH), bit


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_noted_epoch_is_that_of_the_last_batch(platter: SimulatedDisk, log: Log, is_cut: bool) -> None:
    """An epoch that has begun without a batch is not noted: after a kill the log would count as damaged."""
    for epoch in (3, 4, 7):
        for number in range(2):
            stage(log, batch(b"%d" % number), leader_epoch=epoch)
        log.begin_epoch(epoch + 1)  # with a batch of the former on its way
        log.commit()
        assert epochs(platter)[KEY] == epoch
    if is_cut:
        log.truncate_to(3)
        assert epochs(platter)[KEY] == 4
    again = restarted(platter)
    assert again.corruption is None
    assert again.log_end_offset == (3 if is_cut else 6)
    assert epochs(platter)[KEY] == (4 if is_cut else 7)
    again.truncate_fully_and_start_at(40)
    assert epochs(platter)[KEY] == NO_EPOCH


def test_an_older_copy_of_the_epoch_file_is_no_damage(platter: SimulatedDisk, store: LogStore, log: Log) -> None:
    """The noted epoch tells which of the two is wrong: not the batches."""
    path = f"{DIRECTORY}/leader-epoch-checkpoint"
    stage(log, batch(b"a"), leader_epoch=3)
    log.commit()
    log.flush()
    older = log.disk.read_bytes(path)
    stage(log, batch(b"b"), leader_epoch=5)
    log.commit()
    store.close({}, broker_epoch=41)
    platter.mount().write_bytes(path, older)
    again = restarted(platter)
    assert again.corruption is None
    assert again.end_offset_for_epoch(3).offset == 1
    assert again.latest_epoch == 5


@pytest.mark.spec("P5")
def test_it_is_still_told_when_the_start_that_finds_it_is_killed_at_any_operation(
    platter: SimulatedDisk, log: Log
) -> None:
    for number in range(3):
        append(log, b"%d" % number)
    cut_to(log.disk, 2)
    platter.kill()
    turns = 0
    for turns in range(1_000):
        interrupted = platter.copy()
        try:
            open_store(interrupted.mount(Countdown(interrupted, turns)))
        except Killed:
            assert restarted(interrupted).corruption is not None, turns
        else:
            break
    assert turns > 10


class Countdown:
    """Kills all processes before the operation after ``turns`` others."""

    def __init__(self, platter: SimulatedDisk, turns: int) -> None:
        self.platter = platter
        self.turns = turns

    def __call__(self, _operation: Operation) -> None:
        if self.turns == 0:
            self.platter.kill()
            raise Killed
        self.turns -= 1


# -- what is not missing ----------------------------------------------------------------------------------------------


@pytest.mark.spec("P1")
def test_a_write_that_the_kill_interrupted_was_promised_to_nobody(platter: SimulatedDisk) -> None:
    def die(operation: Operation) -> None:
        if is_dying and operation.kind == "append":
            platter.kill()
            raise KilledInside(operation.size // 2)

    is_dying = False
    log = open_store(platter.mount(die)).create(WHERE, TOPIC_ID, CONFIG)
    append(log, b"first")
    is_dying = True
    with pytest.raises(Killed):
        append(log, b"second")
    log = restarted(platter)
    assert (log.log_end_offset, log.corruption) == (1, None)


@pytest.mark.spec("P1")
def test_a_log_that_was_being_made_lacks_nothing_whenever_the_process_is_killed() -> None:
    """Between its topic's id and its first segment it seemed to have lost all its files."""
    for turns in range(1_000):
        platter = SimulatedDisk()
        countdown = Countdown(platter, 1_000_000)
        store = open_store(platter.mount(countdown))
        countdown.turns = turns
        try:
            store.create(WHERE, TOPIC_ID, CONFIG)
        except Killed:
            platter.kill()
            store = open_store(platter.mount(), registers=False)
            log = store.get(WHERE)
            assert log is None or log.corruption is None, (turns, log.corruption)
            assert not store.is_missing(WHERE, TOPIC_ID)
        else:
            assert turns > 3
            return


CUTS: Final[dict[str, Callable[[Log], object]]] = {
    "to an offset": lambda log: log.truncate_to(3),
    "in an older segment": lambda log: log.truncate_to(1),
    "to its start": lambda log: log.truncate_to(0),
    "to begin behind its end": lambda log: log.truncate_fully_and_start_at(50),
    "by retention": lambda log: delete_old_segments(log, 6, 1 << 60),
}


@pytest.mark.spec("P1")
@pytest.mark.parametrize("how", CUTS)
def test_a_log_that_is_cut_on_purpose_lacks_nothing_whenever_the_process_is_killed(how: str) -> None:
    turns = 0
    for turns in range(1_000):
        platter = SimulatedDisk()
        countdown = Countdown(platter, 1_000_000)
        log = open_store(platter.mount(countdown)).create(WHERE, TOPIC_ID, CONFIG)
        for number in range(6):
            append(log, b"%d" % number * 60)
        countdown.turns = turns
        try:
            CUTS[how](log)
            append(log, b"behind the cut")
            end = log.log_end_offset
        except Killed:
            damage = restarted(platter).corruption
            assert damage is None or "no file of the log" in str(damage), (how, turns, damage)
        else:
            log = restarted(platter)
            assert (log.corruption, log.log_end_offset) == (None, end)
            assert ends(platter) == {KEY: end}
            break
    assert turns > 3


@pytest.mark.spec("P5")
@pytest.mark.parametrize("is_flushed", [False, True])
@pytest.mark.parametrize("how", ["restarted", "by retention"])
def test_a_first_segment_is_missed_that_no_list_has(
    platter: SimulatedDisk, log: Log, how: str, is_flushed: bool
) -> None:
    """There is a list, and no flush since the log began elsewhere: it tells nothing of what follows."""
    if how == "restarted":
        log.truncate_fully_and_start_at(50)
    else:
        append(log, b"old")
        delete_old_segments(log, 1, 1 << 60)
    first = log.active_base_offset
    assert starts(platter) == {KEY: first}
    append(log, b"first")
    if is_flushed:
        log.flush()
    log.roll()
    append(log, b"behind")
    assert restarted(platter.copy()).corruption is None
    for kind in (".log", ".index", ".timeindex", ".snapshot"):
        log.disk.unlink(f"{DIRECTORY}/{first:020d}{kind}")
    log = restarted(platter)
    assert log.corruption is not None
    assert log.corruption.offset == first


@pytest.mark.spec("P1")
def test_no_file_goes_while_the_beginning_cannot_be_noted(platter: SimulatedDisk, refuses: Refuses) -> None:
    """Else a log that is whole would be missed what retention took."""
    log = open_store(platter.mount(refuses)).create(WHERE, TOPIC_ID, CONFIG)
    append(log, b"old")
    refuses.error, refuses.kinds = errno.EIO, {"overwrite", "unlink"}
    with pytest.raises(StorageFailure, match="could not delete segments"):
        delete_old_segments(log, 1, 1 << 60)
    refuses.error = 0
    log = restarted(platter)
    assert (log.corruption, log.segments[0].base_offset) == (None, 0)


@pytest.mark.spec("P1")
@pytest.mark.parametrize("is_started", [False, True], ids=["by the same process", "by the next one"])
def test_what_a_cut_leaves_is_known(platter: SimulatedDisk, log: Log, is_started: bool) -> None:
    for number in range(6):
        append(log, b"%d" % number * 60)
    if is_started:
        log = restarted(platter)
    for end in (5, 4, 1):
        log.truncate_to(end)
        assert ends(platter) == {KEY: end}
    log.truncate_fully_and_start_at(70)
    assert ends(platter) == {KEY: 70}


@pytest.mark.parametrize("offset", [11, 40, 50])
def test_a_log_may_be_cut_in_a_gap_of_compaction(platter: SimulatedDisk, log: Log, offset: int) -> None:
    """The slot falls to where a batch ends, not to where the log is said to end."""
    for base_offset in (0, 10, 50):
        log.append_as_follower(memoryview(batch(b"x", base_offset=base_offset, leader_epoch=0)))
    log.first_dirty_offset = 51
    log.truncate_to(offset)
    assert ends(platter) == {KEY: 11}
    assert restarted(platter).corruption is None


def test_a_log_that_ends_in_a_gap_of_compaction_is_cut_to_where_a_batch_ended() -> None:
    turns = 0
    for turns in range(1_000):
        platter = SimulatedDisk()
        countdown = Countdown(platter, 1_000_000)
        log = open_store(platter.mount(countdown)).create(WHERE, TOPIC_ID, LogConfig())
        for base_offset in (0, 10, 50):
            log.append_as_follower(memoryview(batch(b"x", base_offset=base_offset, leader_epoch=0)))
        log.truncate_to(40)
        log.append_as_follower(memoryview(batch(b"y", b"y", b"y", base_offset=40, leader_epoch=0)))
        countdown.turns = turns
        try:
            log.truncate_to(42)
        except Killed:
            assert restarted(platter).corruption is None, turns
        else:
            break
    assert turns > 3


@pytest.mark.spec("P1")
@pytest.mark.spec("P5")
def test_a_log_of_unknown_end_is_not_claimed_once(platter: SimulatedDisk, store: LogStore) -> None:
    """Both may be damaged, the file of the ends and the log. Others lead then, and this one follows them."""
    append(store.create(WHERE, TOPIC_ID, CONFIG), b"a")
    append(store.create(TopicPartition("other", 3), UUID(int=8), CONFIG), b"b")
    whole = {TOPIC_ID, UUID(int=8)}
    flips = {0: whole, HEADER_BYTES: {TOPIC_ID}, HEADER_BYTES + SLOT_BYTES: {UUID(int=8)}}
    for at, unknown in flips.items():
        disk = platter.copy().mount()
        data = disk.read_bytes(PATH)
        disk.write_bytes(PATH, data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        for is_registered in (False, False, True):
            again = open_store(disk, registers=False)
            registrations = Registrations(disk, again, BOOT)
            assert whole - set(registrations.whole_replicas()) == unknown
            assert all(log.corruption is None for log in again)
            if is_registered:
                registrations.write(42)
            again.abandon()
        again = open_store(disk, registers=False)
        assert set(Registrations(disk, again, BOOT).whole_replicas()) == whole


@pytest.mark.spec("P2")
def test_another_boot_is_told_nothing(platter: SimulatedDisk, log: Log) -> None:
    append(log, b"first")
    append(log, b"second")
    cut_to(log.disk, 1)
    assert restarted(platter.copy(), "another boot").corruption is None
    assert restarted(platter).corruption is not None


def test_without_a_boot_id_there_is_no_file(platter: SimulatedDisk, log: Log) -> None:
    append(log, b"first")
    assert restarted(platter, None).log_end_offset == 1
    assert not platter.mount().exists(PATH)


def test_a_log_that_notes_its_durable_end_has_no_slot(platter: SimulatedDisk, store: LogStore) -> None:
    """Of the quorum's log only what was synced is promised."""
    log = store.create(WHERE, TOPIC_ID, replace(CONFIG, notes_durable_end=True))
    append(log, b"unsynced")
    assert ends(platter) == {}


# -- the file ---------------------------------------------------------------------------------------------------------


def test_damage_to_a_slot_makes_its_end_unknown_and_no_other(platter: SimulatedDisk, store: LogStore, log: Log) -> None:
    other = store.create(TopicPartition("other", 3), UUID(int=8), CONFIG)
    append(log, b"a", b"b")
    append(other, b"c")
    assert ends(platter) == {KEY: 2, LogKey(UUID(int=8), 3): 1}
    disk = platter.mount()
    whole = disk.read_bytes(PATH)
    assert len(whole) == HEADER_BYTES + 2 * SLOT_BYTES
    for at in range(len(whole)):
        if at >= HEADER_BYTES and (at - HEADER_BYTES) % SLOT_BYTES in UNUSED:
            continue
        disk.write_bytes(PATH, whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        if at >= HEADER_BYTES and (at - HEADER_BYTES) % SLOT_BYTES in START:
            assert ends(platter) == {KEY: 2, LogKey(UUID(int=8), 3): 1}
            assert sorted(starts(platter).values(), key=str) == [0, None]
            continue
        if at >= HEADER_BYTES and (at - HEADER_BYTES) % SLOT_BYTES in EPOCH:
            assert ends(platter) == {KEY: 2, LogKey(UUID(int=8), 3): 1}
            assert sorted(epochs(platter).values()) == [NO_EPOCH, 0]
            continue
        left = {} if at < HEADER_BYTES else {LogKey(UUID(int=8), 3): 1} if at < HEADER_BYTES + SLOT_BYTES else {KEY: 2}
        assert ends(platter) == left, at
        disk.write_bytes(PATH, whole[:at])
        assert ends(platter) == ({KEY: 2} if at >= HEADER_BYTES + SLOT_BYTES else {})


def test_a_slot_that_is_written_in_part_tells_nothing_else(platter: SimulatedDisk, log: Log) -> None:
    disk = platter.mount()
    before = disk.read_bytes(PATH)
    for number in range(300):
        stage(log, batch(b"%d" % number), leader_epoch=number)
        log.commit()
    after = disk.read_bytes(PATH)
    for at in range(len(before)):
        for half in (after[:at] + before[at:], before[:at] + after[at:]):
            disk.write_bytes(PATH, half)
            (noted,) = (read_log_ends(disk, ROOT, BOOT) or {}).values() or [Noted(0, 0)]
            assert (noted.end_offset, noted.epoch) in ((0, NO_EPOCH), (300, NO_EPOCH), (300, 299))


@pytest.mark.spec("P1")
@pytest.mark.spec("P5")
@pytest.mark.parametrize("taken", [1, 8, 23])
def test_a_slot_is_written_whole_whatever_one_write_takes(platter: SimulatedDisk, taken: int) -> None:
    """A part would leave the end of before: records behind it could go without a trace."""
    disk = platter.mount()
    disk.takes = lambda size: min(size, taken)
    log = open_store(disk).create(WHERE, TOPIC_ID, CONFIG)
    for number in range(3):
        append(log, b"%d" % number * 60)
        assert _noted(platter) == {KEY: Noted(number + 1, 0, 0)}
    delete_old_segments(log, 2, 1 << 60)
    assert starts(platter) == {KEY: log.segments[0].base_offset}
    cut_to(disk, 0)
    assert restarted(platter).corruption is not None


def test_of_two_slots_for_a_log_the_lower_counts(platter: SimulatedDisk, log: Log) -> None:
    append(log, b"a", b"b")
    disk = platter.mount()
    low = disk.read_bytes(PATH)[HEADER_BYTES:]
    append(log, b"c")
    disk.write_bytes(PATH, disk.read_bytes(PATH) + low)
    assert ends(platter) == {KEY: 2}


def test_slots_are_used_again_and_the_file_grows_when_it_must(platter: SimulatedDisk, store: LogStore) -> None:
    logs = [store.create(TopicPartition("t", number), UUID(int=1), CONFIG) for number in range(5)]
    for number, log in enumerate(logs):
        append(log, *[b"x"] * (number + 1))
    size = platter.mount().size(PATH)
    assert size == HEADER_BYTES + 5 * SLOT_BYTES
    for number in (1, 3):
        store.delete(TopicPartition("t", number))
    assert ends(platter) == {LogKey(UUID(int=1), number): number + 1 for number in (0, 2, 4)}
    append(store.create(TopicPartition("t", 3), UUID(int=1), CONFIG), b"x")
    store.create(TopicPartition("t", 8), UUID(int=1), CONFIG)
    assert platter.mount().size(PATH) == size
    assert ends(platter) == {
        LogKey(UUID(int=1), number): end
        for number, end in enumerate((1, 0, 3, 1, 5, 0, 0, 0, 0))
        if number in (0, 2, 3, 4, 8)
    }
    store.create(TopicPartition("t", 9), UUID(int=1), CONFIG)
    assert platter.mount().size(PATH) == size + SLOT_BYTES


def test_a_job_of_a_deleted_log_notes_nothing_in_the_slot_of_another(
    platter: SimulatedDisk, store: LogStore, log: Log
) -> None:
    """The end of the other one was not known any more: after a kill it was not claimed as whole."""
    other, key = TopicPartition("other", 0), LogKey(UUID(int=8), 0)
    append(log, *[b"x"] * 5)
    job = log.prepare_truncation(1)
    assert job is not None
    with log.writing():
        store.delete(WHERE)
        append(store.create(other, key.topic_id, CONFIG), b"x")
        job.run()
    assert ends(platter) == {key: 1}
    assert platter.mount().size(PATH) == HEADER_BYTES + 2 * SLOT_BYTES


@pytest.mark.spec("P5")
def test_a_log_whose_directory_is_gone_is_missing_until_it_is_made_anew(
    platter: SimulatedDisk, store: LogStore, log: Log
) -> None:
    """No checkpoint was written yet, and the node may be killed before it makes the log again."""
    roots = (ROOT, OTHER_ROOT)
    append(log, b"a")
    gone, empty, key = TopicPartition("gone", 0), TopicPartition("empty", 0), LogKey(UUID(int=8), 0)
    append(store.create(gone, UUID(int=8), CONFIG), b"b")
    store.create(empty, UUID(int=9), CONFIG)
    platter.kill()
    for tp in (gone, empty):
        platter.mount().remove_tree(f"{ROOT}/{tp}")
    for _ in range(2):
        platter.kill()
        store = open_store(platter.mount(), *roots)
        assert store.is_missing(gone, UUID(int=8))
        assert not store.is_missing(empty, UUID(int=9)), "nothing of it is lost"
        assert not store.is_missing(WHERE, TOPIC_ID)
        assert not store.is_missing(gone, UUID(int=10)), "another topic of that name"
        assert ends(platter) == {KEY: 1, key: 1}
    store.create(gone, UUID(int=8), CONFIG, store.directories[1])
    assert not store.is_missing(gone, UUID(int=8))
    assert ends(platter) == {KEY: 1}
    assert platter.mount().size(PATH) == HEADER_BYTES + 2 * SLOT_BYTES
    store.delete(gone)
    platter.kill()
    assert not open_store(platter.mount(), *roots).is_missing(gone, UUID(int=8)), "it was deleted"


@pytest.mark.spec("P5")
def test_a_log_is_missing_whenever_the_process_is_killed_that_makes_it_anew() -> None:
    """Without a name and without records it seemed to be new."""
    for turns in range(1_000):
        platter = SimulatedDisk()
        append(open_store(platter.mount()).create(WHERE, TOPIC_ID, CONFIG), b"x")
        platter.kill()
        platter.mount().remove_tree(DIRECTORY)
        countdown = Countdown(platter, 1_000_000)
        store = open_store(platter.mount(countdown))
        countdown.turns = turns
        try:
            store.create(WHERE, TOPIC_ID, CONFIG)
        except Killed:
            store = open_store(platter.mount(), registers=False)
            log = store.get(WHERE)
            if log is None:
                assert store.is_missing(WHERE, TOPIC_ID)
            elif log.topic_id == ZERO_TOPIC_ID:
                store.identify(WHERE, TOPIC_ID)
                assert log.corruption is not None, turns
        else:
            assert turns > 3
            return


def test_a_log_without_records_is_missing_if_it_had_some(platter: SimulatedDisk, store: LogStore) -> None:
    """All of them were deleted. Made again as if it were new, it would begin at offset 0."""
    store.create(WHERE, TOPIC_ID, CONFIG).truncate_fully_and_start_at(7)
    platter.kill()
    platter.mount().remove_tree(f"{ROOT}/{WHERE}")
    assert open_store(platter.mount()).is_missing(WHERE, TOPIC_ID)


@pytest.mark.parametrize("boot_id", [BOOT, "another boot"])
def test_a_deleted_log_in_the_checkpoints_is_not_missed_by_a_topic_of_the_same_name(
    platter: SimulatedDisk, store: LogStore, log: Log, boot_id: str
) -> None:
    """A kill may leave the name in the checkpoints. The slots know topic ids; on another boot only the name is left."""
    append(log, b"a")
    write_checkpoints(store, {WHERE: 1})
    store.delete(WHERE)
    platter.kill()
    store = open_store(platter.mount(), boot_id=boot_id)
    assert store.is_missing(WHERE, UUID(int=10)) is (boot_id != BOOT)


def test_a_log_that_moved_or_was_deleted_is_not_missing(platter: SimulatedDisk) -> None:
    """Whenever the process is killed on the way."""
    turns = 0
    for turns in range(1_000):
        platter = SimulatedDisk()
        countdown = Countdown(platter, 1_000_000)
        store = open_store(platter.mount(countdown), ROOT, OTHER_ROOT)
        log = store.create(WHERE, TOPIC_ID, CONFIG, store.directories[0])
        append(log, b"a", b"b")
        countdown.turns = turns
        try:
            move = store.moves.begin(WHERE, store.directories[1])
            reconcile(move)
            move.append(move.next_slice(1 << 20).read())
            complete_move(store, move, 2)
            store.delete(WHERE)
        except Killed:
            is_over = False
        else:
            is_over = True
        platter.kill()
        store = open_store(platter.mount(), ROOT, OTHER_ROOT)
        assert not any(one.ends.has_lost(KEY) for one in store.directories), turns
        if is_over:
            break
    assert turns > 10


def test_a_log_that_is_set_aside_or_identified_changes_its_slot(
    platter: SimulatedDisk, store: LogStore, log: Log
) -> None:
    append(log, b"a")
    store.identify(WHERE, UUID(int=9))
    assert ends(platter) == {LogKey(UUID(int=9), 0): 1}
    store.set_aside(log)
    assert ends(platter) == {}


def test_a_replica_takes_its_end_to_another_directory(platter: SimulatedDisk) -> None:
    disk = platter.mount()
    store = open_store(disk, ROOT, OTHER_ROOT)
    log = store.create(WHERE, TOPIC_ID, CONFIG, store.directories[0])
    append(log, b"a", b"b")
    move = store.moves.begin(WHERE, store.directories[1])
    reconcile(move)
    move.append(move.next_slice(1 << 20).read())
    append(complete_move(store, move, 2), b"c")
    assert read_log_ends(disk, ROOT, BOOT) == {}
    assert read_log_ends(disk, OTHER_ROOT, BOOT) == {KEY: Noted(3, 0, 0)}


# -- a disk that refuses ----------------------------------------------------------------------------------------------


class Refuses:
    """Fails what is written to the file of the ends while ``error`` is set."""

    def __init__(self) -> None:
        self.error = 0
        self.kinds = {"overwrite"}

    def __call__(self, operation: Operation) -> None:
        if self.error and operation.kind in self.kinds and LOG_ENDS_FILE in operation.path:
            raise OSError(self.error, "refused")


@pytest.fixture
def refuses() -> Refuses:
    return Refuses()


@pytest.fixture
def said() -> Iterator[Mock]:
    with patch.object(log_ends, "logger") as logger:
        yield logger.warning


@pytest.mark.spec("P6")
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_an_end_that_cannot_be_noted_stops_nothing(
    platter: SimulatedDisk, refuses: Refuses, said: Mock, error: int
) -> None:
    store = open_store(platter.mount(refuses))
    log = store.create(WHERE, TOPIC_ID, CONFIG)
    append(log, b"a")
    refuses.error = error
    append(log, b"b")
    append(log, b"c")
    deleted = store.create(TopicPartition("other", 0), UUID(int=8), CONFIG)
    append(deleted, b"d")
    store.delete(deleted.topic_partition)
    log.truncate_to(2)
    assert (log.log_end_offset, log.failure) == (2, None)
    assert said.call_count == 1, "it is said once"
    refuses.error = 0
    append(log, b"e")
    assert restarted(platter).corruption is None


@pytest.mark.spec("P1")
@pytest.mark.spec("P5")
def test_an_end_that_could_not_be_noted_is_not_claimed_after_a_kill(platter: SimulatedDisk, refuses: Refuses) -> None:
    """The disk refused one write, and later lost acknowledged records, down to what had been noted before."""
    log = open_store(platter.mount(refuses)).create(WHERE, TOPIC_ID, CONFIG)
    append(log, b"a")
    refuses.error = errno.EIO
    append(log, b"b")
    assert ends(platter) == {}
    refuses.error = 0
    append(log, b"c")
    cut_to(log.disk, 1)
    platter.kill()
    store = open_store(platter.mount(), registers=False)
    assert Registrations(store._disk, store, BOOT).whole_replicas() == {}


@pytest.mark.spec("P1")
@pytest.mark.parametrize(
    ("what", "act"),
    [("cut", lambda log: log.truncate_to(1)), ("append to", lambda log: append(log, b"x"))],
)
def test_nothing_is_cut_and_nothing_counts_while_the_file_tells_otherwise(
    platter: SimulatedDisk, refuses: Refuses, what: str, act: Callable[[Log], object]
) -> None:
    """Else a log that is whole would be missed after a kill, or one that is not would pass for whole."""
    log = open_store(platter.mount(refuses)).create(WHERE, TOPIC_ID, CONFIG)
    for number in range(3):
        append(log, b"%d" % number)
    refuses.error, refuses.kinds = errno.EIO, {"overwrite", "unlink"}
    with pytest.raises(StorageFailure, match=f"could not {what}"):
        act(log)
    assert ends(platter) == {KEY: 3}
    assert log.log_end_offset <= 3
    log = restarted(platter)
    assert log.log_end_offset >= 3
    assert log.corruption is None


@pytest.mark.spec("R12")
def test_a_slot_that_can_neither_be_made_nor_go_costs_the_directory(platter: SimulatedDisk, refuses: Refuses) -> None:
    store = open_store(platter.mount(refuses), ROOT, OTHER_ROOT)
    append(store.create(WHERE, TOPIC_ID, CONFIG, store.directories[0]), b"a")
    refuses.error, refuses.kinds = errno.EIO, {"overwrite", "unlink"}
    store.delete(WHERE)
    failure = store.directories[0].failure
    assert failure is not None
    assert failure.message.startswith(f"could not remove {PATH}: ")
    assert store.online == store.directories[1:]


@pytest.mark.spec("P6")
@pytest.mark.parametrize("kind", ["create", "rename", "open"])
def test_a_start_that_cannot_make_the_file_removes_it_and_goes_on(
    platter: SimulatedDisk, log: Log, said: Mock, kind: str
) -> None:
    append(log, b"a")
    append(log, b"b")
    platter.kill()
    refuses = Refuses()
    refuses.kinds, refuses.error = {kind}, errno.EIO
    disk = platter.mount(refuses, refuses)
    store = open_store(disk)
    again = store.get(WHERE)
    assert again is not None
    append(again, b"c")
    again.truncate_to(1)
    assert said.called
    assert not disk.exists(PATH)
    assert restarted(platter).corruption is None


@pytest.mark.spec("P1")
def test_a_start_on_a_full_disk_leaves_the_ends_to_the_next_one(platter: SimulatedDisk, log: Log) -> None:
    """Without them that would vouch for no log once, though each was whole."""
    append(log, b"a")
    platter.kill()
    refuses = Refuses()
    refuses.kinds, refuses.error = {"create"}, errno.ENOSPC
    with pytest.raises(StorageFailure, match="make room on it"):
        open_store(platter.mount(refuses))
    assert ends(platter) == {KEY: 1}
    store = open_store(platter.mount(), registers=False)
    assert Registrations(store._disk, store, BOOT).whole_replicas() == {TOPIC_ID: (0,)}


def test_many_batches_are_one_note(platter: SimulatedDisk) -> None:
    """One small write for each write of a log, behind it."""
    operations: list[Operation] = []
    log = open_store(platter.mount(operations.append)).create(WHERE, TOPIC_ID, LogConfig())
    operations.clear()
    for value in (b"a", b"b", b"c"):
        stage(log, batch(value))
    log.commit()
    assert [(operation.kind, operation.size) for operation in operations] == [
        ("append", operations[0].size),
        ("overwrite", NOTE_BYTES),
    ]


def test_a_leader_or_follower_moves_its_end_behind_the_slot_only(platter: SimulatedDisk) -> None:
    """Whoever hears of a record hears of one that a start knows of."""
    seen: list[int] = []

    def before(operation: Operation) -> None:
        if operation.kind == "overwrite" and operation.size == NOTE_BYTES:
            seen.append(log.log_end_offset)

    log = open_store(platter.mount(before)).create(WHERE, TOPIC_ID, CONFIG)
    seen.clear()
    append(log, b"a")
    log.append_as_follower(memoryview(batch(b"b", base_offset=1, leader_epoch=0)))
    assert seen == [0, 1]
    assert ends(platter) == {KEY: 2}


def test_a_log_that_was_about_to_begin_anew_is_whole() -> None:
    """Killed when its files were made, and before its end was noted: it had only noted where it begins."""
    platter = SimulatedDisk()
    log = open_store(platter.mount()).create(WHERE, TOPIC_ID, CONFIG)
    for _ in range(5):
        append(log, b"x" * 100)
    log.flush()
    log.prepare_restart(70).run()
    again = restarted(platter)
    assert again.corruption is None
    assert (again.log_start_offset, again.log_end_offset) == (70, 70)
