"""A log that moves to another directory, whatever happens to it, its process and its machine meanwhile (row A5)."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import NoReturn
from uuid import UUID

import pytest
from at_once import compact, complete_move, reconcile, seal
from simulator.killed import Killed
from storage_batches import NOW_MS, all_values, append, batch, read_all, stage
from storage_machine import Machine
from store_checkpoints import write_checkpoints

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import TopicPartition
from minikafka.records.control import EndTxnMarker, build_end_txn_marker
from minikafka.storage.arriving import Arrival
from minikafka.storage.config import LogConfig
from minikafka.storage.directory_names import (
    deleted_directory_id,
    future_directory_name,
    parse_directory_name,
    parse_future_directory_name,
)
from minikafka.storage.disk import Disk
from minikafka.storage.errors import EndsMayBeGone, PassingFailure, StorageFailure
from minikafka.storage.log import Log
from minikafka.storage.log_dir import LogDir
from minikafka.storage.log_store import LogStore
from minikafka.storage.moving import ReplicaMove
from minikafka.storage.registration import Registrations

WHERE = TopicPartition("orders", 0)
TOPIC_ID = UUID(int=7)
CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=150)
COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0, delete_retention_ms=0)
ONE, TWO = "/one", "/two"

pytestmark = pytest.mark.spec("A5")


def open_store(disk: Disk, rng: Random, *paths: str, boot_id: str | None = None) -> LogStore:
    store = LogStore.open(
        disk,
        paths or (ONE, TWO),
        node_id=1,
        cluster_id="cluster",
        new_uuid=lambda: UUID(int=rng.getrandbits(128)),
        config_for=lambda _where: CONFIG,
        boot_id=boot_id,
    )
    if boot_id is not None:
        Registrations(disk, store, boot_id).write(41)
    return store


def begin(store: LogStore, *, count: int = 0) -> ReplicaMove:
    """A log in the first directory, on its way to the second."""
    log = store.create(WHERE, TOPIC_ID, CONFIG, store.directories[0])
    for number in range(count):
        append(log, b"%d" % number * 50)
    log.flush()
    return store.moves.begin(WHERE, store.directories[1])


def copy(move: ReplicaMove, max_bytes: int = 1 << 20) -> bool:
    """A piece; False when nothing is left. The driver finds its moves anew for each piece, too."""
    reconcile(move)
    move = ReplicaMove(move.current, move.future)
    reconcile(move)
    found = move.next_slice(max_bytes)
    job = move.append(found.read())
    if job is not None:
        job.run()
        move.future.complete_cut(job)
    return len(found) > 0


def complete(store: LogStore, move: ReplicaMove) -> Log:
    for _ in range(500):
        if not copy(move):
            break
    return complete_move(store, move, move.current.log_end_offset)


def trash(store: LogStore) -> None:
    remove = store.take_trash()
    if remove is not None:
        remove()


def names(disk: Disk, path: str) -> list[str]:
    return [name for name in disk.listdir(path) if "orders" in name]


def test_names_are_kafkas() -> None:
    unique = UUID(int=0xABC)
    name = future_directory_name(WHERE, unique)
    assert name == f"orders-0.{unique.hex}-future"
    assert parse_future_directory_name(name) == (WHERE, unique)
    assert parse_directory_name(name) is None
    assert deleted_directory_id(name) is None
    assert len(future_directory_name(TopicPartition("t" * 249, 1), unique)) == 255


def test_a_moved_log_is_the_same_log() -> None:
    machine, rng = Machine(), Random(1)
    store = open_store(machine.disk, rng)
    move = begin(store, count=20)
    append(move.current, b"idempotent", leader_epoch=2, producer=(5, 0, 0))
    move.current.begin_epoch(4)
    before, epochs = read_all(move.current), move.current.epoch_entries
    assert move.current.log_end_offset - move.future.log_end_offset == 21
    log = complete(store, move)
    assert move.is_over
    assert store.get(WHERE) is log
    assert store.log_dir_of(WHERE) is store.directories[1]
    assert store.high_watermark(WHERE) == 21
    assert (read_all(log), log.epoch_entries, log.recovery_point) == (before, epochs, 20)
    assert append(log, b"idempotent", leader_epoch=4, producer=(5, 0, 0)).duplicate
    trash(store)
    assert names(machine.disk, ONE) == []
    assert names(machine.disk, TWO) == ["orders-0"]
    append(log, b"goes on", leader_epoch=4)
    store.close({WHERE: 22})
    again = open_store(machine.disk, rng)
    assert list(all_values(again.get(WHERE)).values())[-1] == b"goes on"  # type: ignore[arg-type]
    assert again.high_watermark(WHERE) == 22


@pytest.mark.parametrize("seed", range(60))
def test_a_copy_follows_whatever_becomes_of_the_log(seed: int) -> None:
    machine, rng = Machine(), Random(seed)
    store = open_store(machine.disk, rng)
    move = begin(store, count=3)
    log, epoch = move.current, 0
    for number in range(80):
        match rng.randrange(9):
            case 0:
                epoch += number % 2  # or it fetches records again that its leader has cleaned
                log.truncate_to(rng.randint(log.log_start_offset, log.log_end_offset))
                append(log, b"epoch %d, %d" % (epoch, number), leader_epoch=epoch)
            case 1:
                log.maybe_increment_log_start_offset(rng.randint(log.log_start_offset, log.log_end_offset))
            case 2 if rng.random() < 0.2:
                epoch += 1
                log.truncate_fully_and_start_at(log.log_end_offset + rng.randrange(10))
            case 3 | 4 | 5:
                append(log, *[b"%d" % number * rng.randint(1, 20)] * rng.randint(1, 3), leader_epoch=epoch)
            case _:
                copy(move, rng.randint(1, 500))
    expected, start, epochs = all_values(log), log.log_start_offset, log.epoch_entries
    moved = complete(store, move)
    assert all_values(moved) == expected
    assert (moved.log_start_offset, moved.epoch_entries) == (start, epochs)


def test_a_log_whose_files_are_gone_does_not_take_its_directory_along() -> None:
    """Somebody removed them just before the last step: all logs of the directory went offline, or the node stopped."""
    machine = Machine()
    store = open_store(machine.disk, Random(1))
    other = store.create(TopicPartition("other", 0), UUID(int=8), CONFIG, store.directories[0])
    move = begin(store, count=5)
    while copy(move):
        pass
    machine.disk.remove_tree(move.current.directory)
    with pytest.raises(StorageFailure):
        complete_move(store, move, 5)
    assert (store.online, other.failure) == (store.directories, None)
    assert move.current.has_lost_files
    assert store.remake(WHERE).corruption is not None
    assert store.moves.target_of(WHERE) is None


@pytest.mark.spec("T28")
def test_a_copy_that_was_away_does_not_keep_what_the_cleaner_took(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its directory was offline meanwhile. Consumers of the moved log got records of an aborted transaction."""
    monkeypatch.setitem(globals(), "CONFIG", COMPACTED)
    machine, rng = Machine(), Random(1)
    store = open_store(machine.disk, rng)
    move = begin(store)
    stage(move.current, batch(b"aborted", keys=(b"a",), producer=(7, 0, 0), is_transactional=True))
    while copy(move):
        pass
    store.close({WHERE: 1})
    store = open_store(machine.disk, rng, ONE)
    log = store.get(WHERE)
    assert log is not None
    stage(log, build_end_txn_marker(7, 1, EndTxnMarker(False, 0), timestamp=NOW_MS))
    for number in range(4):
        append(log, b"%d" % number, keys=(b"k",))
        log.roll()
        log.flush()
        assert compact(log, log.log_end_offset, NOW_MS + number)
    store.close({WHERE: log.log_end_offset})
    store = open_store(machine.disk, rng)
    (move,) = store.moves.under_way()
    assert list(all_values(complete(store, move)).values()) == [b"3"]


@pytest.mark.spec("R26")
@pytest.mark.parametrize("last", [None, "put_in_place", "prepare_checkpoints"])
def test_that_a_log_was_cleaned_moves_with_it(monkeypatch: pytest.MonkeyPatch, last: str | None) -> None:
    """Of such a log nothing stays at a cut below the high watermark; also when it is not compacted any more."""
    monkeypatch.setitem(globals(), "CONFIG", COMPACTED)
    machine, rng = Machine(), Random(1)
    store = open_store(machine.disk, rng)
    log = store.create(WHERE, TOPIC_ID, CONFIG, store.directories[0])
    for number in range(2):
        append(log, b"%d" % number, keys=(b"k",))
        log.roll()
    log.flush()
    clean(log)
    append(log, b"2")
    monkeypatch.setitem(globals(), "CONFIG", LogConfig())
    log.config = CONFIG
    store.close({WHERE: 3})
    store = open_store(machine.disk, rng)
    move = store.moves.begin(WHERE, store.directories[1])
    if last is None:
        assert complete(store, move).is_cleaned
    else:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LogDir, last, killed)
            with pytest.raises(Killed):
                complete(store, move)
    machine.kill()
    store = open_store(machine.disk, rng)
    moved = store.get(WHERE)
    assert moved is not None
    assert store.log_dir_of(WHERE) is store.directories[1]
    assert list(all_values(moved)) == [1, 2]
    assert moved.is_cleaned


def clean(log: Log) -> None:
    assert compact(log, log.log_end_offset, NOW_MS)


def killed(*_: object) -> None:
    raise Killed


@pytest.mark.spec("T28")
def test_a_copy_does_not_keep_what_the_log_has_fetched_again() -> None:
    """In the leader epoch in which it was written, and beyond the end of the copy, which showed no difference then."""
    machine, rng = Machine(), Random(1)
    store = open_store(machine.disk, rng)
    move = begin(store, count=20)
    while copy(move):
        pass
    move.current.truncate_to(5)
    for number in range(20):
        append(move.current, b"again %d" % number)
    expected = all_values(move.current)
    assert all_values(complete(store, move)) == expected


def test_a_log_that_was_cut_once_is_copied_to_its_end() -> None:
    """Each piece began with a cut of the copy where the log had ever been cut: no move of more than a piece ended."""
    store = open_store(Machine().disk, Random(1))
    log = store.create(WHERE, TOPIC_ID, CONFIG, store.directories[0])
    append(log, b"stays")
    append(log, b"goes")
    log.truncate_to(1)
    for number in range(20):
        append(log, b"%d" % number * 50)
    moved = complete(store, store.moves.begin(WHERE, store.directories[1]))
    assert moved.log_end_offset == 21


def test_what_was_read_before_a_cut_is_not_appended_after_it() -> None:
    store = open_store(Machine().disk, Random(1))
    move = begin(store, count=10)
    reconcile(move)
    records = move.next_slice(1 << 20).read()
    move.current.truncate_to(2)
    append(move.current, b"another", leader_epoch=1)
    move.append(records)
    assert move.future.log_end_offset == 0


@pytest.mark.spec("P2")
@pytest.mark.parametrize("how", ["killed", "without power"])
def test_a_restart_in_the_middle_resumes_or_has_it_done(how: str) -> None:
    is_done, budget, seen = False, 0, set()
    while not is_done:
        machine, rng = Machine(), Random(budget)
        store = open_store(machine.disk, rng)
        log = store.create(WHERE, TOPIC_ID, CONFIG, store.directories[0])
        for number in range(12):
            append(log, b"%d" % number * 50)
        log.flush()
        write_checkpoints(store, {WHERE: 12})
        expected = read_all(log)
        machine.budget = budget
        with suppress(Killed):
            complete(store, store.moves.begin(WHERE, store.directories[1]))
            trash(store)
            is_done = True
        if how == "killed":
            machine.kill()
        else:
            machine.lose_power(rng)
        store = open_store(machine.disk, rng)
        log_ = store.get(WHERE)
        assert log_ is not None
        assert read_all(log_) == expected
        assert log_.corruption is None
        moves = store.moves.under_way()
        holders = [directory for directory in store.directories if WHERE in directory.logs]
        assert len(holders) == 1
        assert not moves or holders == [store.directories[0]]
        seen.add((holders[0].path, len(moves)))
        for move in moves:
            assert read_all(complete(store, move)) == expected
        trash(store)
        found = names(machine.disk, ONE) + names(machine.disk, TWO)
        assert found == ["orders-0"]
        store.abandon()
        budget += 1
    assert seen == {(ONE, 0), (ONE, 1), (TWO, 0)}


def killed_before_the_copy_has_its_name(machine: Machine, rng: Random) -> None:
    """Nine records; the directory that they were in has given them up."""
    store = open_store(machine.disk, rng, boot_id="boot")
    move = begin(store, count=9)
    write_checkpoints(store, {WHERE: 7})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LogDir, "put_in_place", killed)
        with pytest.raises(Killed):
            complete(store, move)
    machine.kill()


@pytest.mark.spec("P5", "R22")
@pytest.mark.parametrize("is_damaged", [False, True])
def test_what_a_start_finds_of_a_complete_copy_is_all_or_damage(is_damaged: bool) -> None:
    machine, rng = Machine(), Random(3)
    killed_before_the_copy_has_its_name(machine, rng)
    if is_damaged:
        (copied,) = (name for name in machine.disk.listdir(TWO) if name.endswith("-future"))
        active = max(name for name in machine.disk.listdir(f"{TWO}/{copied}") if name.endswith(".log"))
        file = machine.disk.open_append(f"{TWO}/{copied}/{active}")
        file.truncate(file.size() - 1)
    store = open_store(machine.disk, rng, boot_id="boot")
    log = store.get(WHERE)
    assert log is not None
    assert (log.corruption is not None) == is_damaged, "a torn tail would be claimed, and lead"
    assert store.high_watermark(WHERE) == 7
    assert is_damaged or len(all_values(log)) == 9


def test_a_start_without_the_directory_of_a_complete_copy_forgets_nothing() -> None:
    machine, rng = Machine(), Random(3)
    killed_before_the_copy_has_its_name(machine, rng)
    machine.disk.rename(TWO, "/elsewhere")
    machine.disk.write_bytes(TWO, b"not a directory")
    store = open_store(machine.disk, rng, boot_id="boot")
    assert store.get(WHERE) is None
    trash(store)
    machine.kill()
    machine.disk.unlink(TWO)
    machine.disk.rename("/elsewhere", TWO)
    store = open_store(machine.disk, rng, boot_id="boot")
    log = store.get(WHERE)
    assert log is not None
    assert len(all_values(log)) == 9
    trash(store)
    assert names(machine.disk, ONE) == []


def test_a_copy_of_what_is_not_there_any_more_is_dropped() -> None:
    machine, rng = Machine(), Random(3)
    store = open_store(machine.disk, rng)
    copy(begin(store, count=5))
    store.directories[0].delete(WHERE, UUID(int=99))
    store.abandon()
    store = open_store(machine.disk, rng)
    assert store.get(WHERE) is None
    assert store.moves.under_way() == []
    trash(store)
    assert names(machine.disk, TWO) == []


def test_deleting_a_log_or_changing_the_goal_takes_the_copy_away() -> None:
    machine, rng = Machine(), Random(3)
    store = open_store(machine.disk, rng)
    move = begin(store, count=5)
    copy(move)
    again = store.moves.begin(WHERE, store.directories[1])
    assert move.is_over
    assert again.current.log_end_offset - again.future.log_end_offset == 5
    store.delete(WHERE)
    assert again.is_over
    assert store.moves.under_way() == []
    trash(store)
    assert names(machine.disk, ONE) == names(machine.disk, TWO) == []


def test_without_the_directory_of_the_log_a_copy_waits() -> None:
    machine, rng = Machine(), Random(3)
    store = open_store(machine.disk, rng)
    copy(begin(store, count=5))
    store.abandon()
    machine.disk.rename(ONE, "/elsewhere")
    machine.disk.write_bytes(ONE, b"not a directory")
    store = open_store(machine.disk, rng)
    assert [each.failure is None for each in store.directories] == [False, True]
    assert store.get(WHERE) is None
    assert len(names(machine.disk, TWO)) == 1
    store.abandon()
    machine.disk.unlink(ONE)
    machine.disk.rename("/elsewhere", ONE)
    store = open_store(machine.disk, rng)
    assert len(all_values(complete(store, store.moves.under_way()[0]))) == 5


def test_a_directory_that_fails_takes_its_copies_with_it() -> None:
    store = open_store(Machine().disk, Random(3))
    move = begin(store, count=5)
    store.directories[1].fail(StorageFailure("EIO"))
    assert move.is_over
    assert store.moves.under_way() == []
    assert append(move.current, b"goes on").base_offset == 5
    with pytest.raises(KafkaError) as raised:
        store.moves.begin(WHERE, store.directories[1])
    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_open_and_aborted_transactions_move_with_the_log() -> None:
    rng, machine = Random(1), Machine()
    store = open_store(machine.disk, rng)
    move = begin(store)
    for number in range(12):
        producer_id = 7 + number % 3
        append(move.current, b"v" * 50, producer=(producer_id, 0, number // 3), is_transactional=True)
        if number % 4 == 3:
            marker = build_end_txn_marker(producer_id, 0, EndTxnMarker(number == 7, 0), timestamp=NOW_MS)
            stage(move.current, marker)
            move.current.commit()
    former = move.current
    told = former.aborted.between(0, former.log_end_offset), former.last_stable_offset(former.log_end_offset)
    assert told[0]
    assert told[1] < former.log_end_offset
    log = complete(store, move)
    assert len(log.segments) > 1
    for _ in range(2):
        end = log.log_end_offset
        job = log.aborted.prepare(0, end)
        if job is not None:
            job.run()
            log.complete_read(job)
        assert (log.aborted.between(0, end), log.last_stable_offset(end)) == told
        store.close({}, broker_epoch=1)
        store = open_store(machine.disk, rng)
        found = store.get(WHERE)
        assert found is not None
        log = found


@pytest.mark.spec("T28")
def test_a_moved_follower_still_knows_since_when_it_follows() -> None:
    """What its leader has cleaned since may have been the end of a transaction that was open then."""
    store = open_store(Machine().disk, Random(1))
    move = begin(store)
    stage(move.current, batch(b"open", producer=(7, 0, 0), is_transactional=True))
    move.current.commit()
    move.current.begin_following()
    log = complete(store, move)
    with pytest.raises(EndsMayBeGone):
        log.append_as_follower(memoryview(batch(b"behind a gap", base_offset=5, leader_epoch=0)))


def test_a_shortage_at_the_end_of_a_move_leaves_the_log_what_it_knows_of_its_producers() -> None:
    """The copy had taken over the producers themselves, and replayed into them what the log had appended since."""
    store = open_store(Machine().disk, Random(1))
    move = begin(store)
    log = move.current
    assert not copy(move)
    store.directories[0].open_names = _short  # type: ignore[method-assign]
    with pytest.raises(PassingFailure):
        complete_move(store, move, 0)
    append(log, b"ended", producer=(7, 0, 0), is_transactional=True)
    stage(log, build_end_txn_marker(7, 0, EndTxnMarker(is_commit=True, coordinator_epoch=0), timestamp=NOW_MS))
    log.commit()
    append(log, b"open", producer=(7, 0, 1), is_transactional=True)
    while copy(move, 1):
        assert log.last_stable_offset(3) == 2, "nobody reads what is not committed"
    entry = log.producers.get(7)
    assert entry is not None
    assert [batch.last_offset for batch in entry.batches] == [0, 2]


def _short() -> NoReturn:
    raise PassingFailure("too many open files")


# -- the log arrives ---------------------------------------------------------------------------------------------------


def arrive(store: LogStore) -> Arrival:
    """A log of nine records, durable up to 7, whose copy has taken its place; one was appended since."""
    move = begin(store, count=7)
    append(move.current, b"8", b"9")
    while copy(move):
        pass
    seal(move)
    arrival = store.moves.arrive(move, 7)
    append(arrival.log, b"since")
    return arrival


@pytest.mark.spec("P1")
@pytest.mark.parametrize("steps", range(4))
@pytest.mark.parametrize("how", ["killed", "without power"])
def test_a_log_that_arrives_keeps_its_promises(how: str, steps: int) -> None:
    machine, rng = Machine(), Random(steps)
    store = open_store(machine.disk, rng, boot_id="boot")
    arrival = arrive(store)
    assert store.get(WHERE) is arrival.log
    assert arrival.log.recovery_point == 7, "a power cut may bring the former log back"
    for step in (arrival.make_departure_durable, arrival.enter, arrival.make_entry_durable)[:steps]:
        step()
    assert len(all_values(arrival.log)) == 10
    if how == "killed":
        machine.kill()
    else:
        machine.lose_power(rng)
    store = open_store(machine.disk, rng, boot_id="boot" if how == "killed" else "another")
    log = store.get(WHERE)
    assert log is not None
    assert log.corruption is None
    assert len(all_values(log)) >= (10 if how == "killed" else 7)


@pytest.mark.spec("R22")
@pytest.mark.parametrize("steps", range(4))
@pytest.mark.parametrize("how", ["killed", "without power"])
def test_a_log_that_arrives_keeps_its_checkpoints(how: str, steps: int) -> None:
    """Records that were deleted since its copy began came back, and the high watermark was 0."""
    machine, rng = Machine(), Random(steps)
    store = open_store(machine.disk, rng, boot_id="boot")
    move = begin(store, count=12)
    while copy(move):
        pass
    move.current.maybe_increment_log_start_offset(5)
    write_checkpoints(store, {WHERE: 12})
    reconcile(move)
    seal(move)
    arrival = store.moves.arrive(move, 12)
    for step in (arrival.make_departure_durable, arrival.enter, arrival.make_entry_durable)[:steps]:
        step()
    if how == "killed":
        machine.kill()
    else:
        machine.lose_power(rng)
    store = open_store(machine.disk, rng, boot_id="boot" if how == "killed" else "another")
    log = store.get(WHERE)
    assert log is not None
    assert (log.corruption, log.log_start_offset, store.high_watermark(WHERE)) == (None, 5, 12)


def test_a_read_that_began_before_a_log_got_its_name_is_asked_again() -> None:
    store = open_store(Machine().disk, Random(1))
    arrival = arrive(store)
    look_up = arrival.log.prepare_max_timestamp_lookup()
    arrival.make_departure_durable()
    assert arrival.enter()
    look_up.run()
    with pytest.raises(KafkaError, match="try again"):
        arrival.log.complete_read(look_up)


def test_a_log_that_is_deleted_while_it_arrives_leaves_nothing() -> None:
    machine = Machine()
    store = open_store(machine.disk, Random(1))
    arrival = arrive(store)
    store.delete(WHERE)
    arrival.make_departure_durable()
    assert not arrival.enter()
    trash(store)
    assert names(machine.disk, ONE) + names(machine.disk, TWO) == []


def test_nothing_is_deleted_from_a_log_that_arrives() -> None:
    """The job would look for its files where they were."""
    store = open_store(Machine().disk, Random(1))
    arrival = arrive(store)
    arrival.log.roll()
    arrival.log.maybe_increment_log_start_offset(10)
    assert arrival.log.prepare_deletion(10, NOW_MS) is None
    arrival.make_departure_durable()
    assert arrival.enter()
    arrival.make_entry_durable()
    arrival.complete()
    assert arrival.log.prepare_deletion(10, NOW_MS) is not None


def test_a_log_whose_files_go_while_it_arrives_is_made_again_under_its_name() -> None:
    machine = Machine()
    store = open_store(machine.disk, Random(1))
    arrival = arrive(store)
    machine.disk.remove_tree(arrival.log.directory)
    arrival.make_departure_durable()
    with pytest.raises(StorageFailure):
        arrival.enter()
    assert store.online == store.directories
    assert store.remake(WHERE).directory == f"{TWO}/orders-0"
    trash(store)
    assert names(machine.disk, ONE) == []
