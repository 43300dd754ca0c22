"""Row 7 of issue 11: a process without a descriptor left, at whatever step, never takes a disk for broken.

Each act is tried with no descriptor left from the first, the second, ... on that it asks for. Either it is done, or it
raises, or keeps for later, what the same act completes when descriptors are there again.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from itertools import count
from typing import Final
from uuid import UUID

import pytest
from at_once import complete_move, delete_old_segments, reconcile
from simulator.disk import SimulatedDisk
from simulator.disk.operations import Kind, Operation
from storage_batches import append, read_all
from store_checkpoints import write_checkpoints

from minikafka.model import ZERO_TOPIC_ID, TopicPartition
from minikafka.records.batch import iter_batches
from minikafka.storage.config import LogConfig
from minikafka.storage.cut_job import CutJob
from minikafka.storage.damage import REFETCH_FILE, read_refetch_mark
from minikafka.storage.disk import Disk
from minikafka.storage.errors import PassingFailure, is_passing
from minikafka.storage.log import Log
from minikafka.storage.log_store import LogStore
from minikafka.storage.registration import RecordJob, Registrations
from minikafka.storage.registration_file import Registration, read_registration

pytestmark = pytest.mark.spec("P6")

WHERE: Final = TopicPartition("orders", 0)
NEW: Final = TopicPartition("new", 0)
TOPIC_ID: Final = UUID(int=7)
OTHER_ID: Final = UUID(int=8)
CONFIG: Final = LogConfig(segment_bytes=400, index_interval_bytes=100, retention_bytes=500)
STEPS_MAX: Final = 200


class Descriptors:
    """``left``: how many there are still; None: enough. Memory may be short for what is no open, too: ``kind``."""

    def __init__(self, kind: Kind = "open") -> None:
        self.kind = kind
        self.left: int | None = None
        self.number = errno.EMFILE
        self.was_short = False

    def __call__(self, operation: Operation) -> None:
        if operation.kind != self.kind or self.left is None:
            return
        if not self.left:
            self.was_short = True
            raise OSError(self.number, os.strerror(self.number), operation.path)
        self.left -= 1


def open_store(disk: Disk) -> LogStore:
    uuids = count(100)
    return LogStore.open(
        disk,
        ["/one", "/two"],
        node_id=1,
        cluster_id="c",
        new_uuid=lambda: UUID(int=next(uuids)),
        boot_id="boot",
        config_for=lambda _where: CONFIG,
    )


def filled(disk: Disk) -> LogStore:
    store = open_store(disk)
    log = store.create(WHERE, TOPIC_ID, CONFIG, store.directories[0])
    for number in range(20):
        append(log, b"%d" % number * 20)
    return store


def the_log(store: LogStore) -> Log:
    log = store.get(WHERE)
    assert log is not None
    return log


Act = Callable[[], object]
Check = Callable[[LogStore], None]


def flush(_disk: Disk, store: LogStore) -> tuple[Act, Check]:
    log = the_log(store)

    def check(store: LogStore) -> None:
        assert the_log(store).recovery_point == log.log_end_offset

    return log.flush, check


def roll(_disk: Disk, store: LogStore) -> tuple[Act, Check]:
    segments = len(the_log(store).segments)

    def check(store: LogStore) -> None:
        assert len(the_log(store).segments) == segments + 1

    return lambda: None if len(the_log(store).segments) > segments else the_log(store).roll(), check


def retention(_disk: Disk, store: LogStore) -> tuple[Act, Check]:
    def check(store: LogStore) -> None:
        assert the_log(store).log_start_offset > 0

    return lambda: delete_old_segments(the_log(store), the_log(store).log_end_offset, 0), check


def checkpoints(_disk: Disk, store: LogStore) -> tuple[Act, Check]:
    def check(store: LogStore) -> None:
        assert store.directories[0].checkpoints.high_watermarks == {WHERE: 20}

    return lambda: write_checkpoints(store, {WHERE: 20}), check


def create(_disk: Disk, store: LogStore) -> tuple[Act, Check]:
    def check(store: LogStore) -> None:
        assert (log := store.get(NEW)) is not None
        assert append(log, b"x").base_offset == 0

    return lambda: store.get(NEW) or store.create(NEW, OTHER_ID, CONFIG), check


def remake(disk: Disk, store: LogStore) -> tuple[Act, Check]:
    disk.remove_tree(the_log(store).directory)
    look = store.prepare_look()
    for log_ in store:
        look.add(log_)
    look.run()
    look.complete()
    lost = the_log(store)
    assert lost.corruption is not None

    def check(store: LogStore) -> None:
        log = the_log(store)
        assert (log.log_end_offset, log.corruption) == (0, lost.corruption)
        store.abandon()
        again = open_store(disk)
        assert the_log(again).corruption is not None, "a restart does not forget it"
        assert Registrations(disk, again, "boot").whole_replicas() == {}
        again.abandon()

    return lambda: store.remake(WHERE) if the_log(store) is lost else None, check


def identify(_disk: Disk, store: LogStore) -> tuple[Act, Check]:
    the_log(store).topic_id = ZERO_TOPIC_ID

    def check(store: LogStore) -> None:
        log = the_log(store)
        assert log.topic_id == TOPIC_ID
        assert log.corruption is not None, "it was another topic's, for all that is known"

    return lambda: store.identify(WHERE, TOPIC_ID), check


def give_up_a_claim(disk: Disk, store: LogStore) -> tuple[Act, Check]:
    """Roles follow the setting at once: from the first try on no start may find the claim."""
    registrations = Registrations(disk, store, "boot")
    registrations.write(41)
    registrations.claim(frozenset((TOPIC_ID,)))
    jobs: list[RecordJob] = []

    def found() -> list[Registration | None]:
        return [read_registration(disk, one.path) for one in store.directories]

    def act() -> None:
        if not jobs:
            jobs.append(registrations.claim(frozenset()))
        elif jobs[0].must_repeat:
            descriptors_are_back = [None if one is None else one.synced for one in found()]
            assert (TOPIC_ID,) not in descriptors_are_back
            jobs[0].run()
            registrations.complete(jobs[0])

    def check(store: LogStore) -> None:
        assert [one and (one.broker_epoch, one.synced) for one in found()] == [(41, ()), (41, ())]

    return act, check


def move(_disk: Disk, store: LogStore) -> tuple[Act, Check]:
    whole = read_all(the_log(store))
    move = store.moves.begin(WHERE, store.directories[1])
    reconcile(move)
    while found := move.next_slice(1 << 20):
        move.append(found.read())

    def check(store: LogStore) -> None:
        assert store.log_dir_of(WHERE) is store.directories[1]
        assert read_all(the_log(store)) == whole

    def act() -> None:
        if store.moves.target_of(WHERE) is not None:
            complete_move(store, move, 20)

    return act, check


def follow(_disk: Disk, store: LogStore) -> tuple[Act, Check]:
    """Batches that take several segments; what is in the log when a segment cannot be opened stays."""
    leader = filled(SimulatedDisk().mount())
    append(the_log(leader), b"to follow" * 20)
    for number in range(10):
        append(the_log(leader), b"%d" % number * 50)
    whole = read_all(the_log(leader))

    def act() -> None:
        end = the_log(store).log_end_offset
        rest = next((at for at, header in iter_batches(whole) if header.base_offset >= end), len(whole))
        if rest < len(whole):
            the_log(store).append_as_follower(memoryview(bytearray(whole[rest:])))

    def check(store: LogStore) -> None:
        assert read_all(the_log(store)) == whole

    return act, check


def damage(disk: Disk, store: LogStore) -> tuple[Act, Check]:
    log = the_log(store)

    def check(store: LogStore) -> None:
        assert the_log(store).corruption is not None
        store.abandon()
        again = open_store(disk)
        assert the_log(again).corruption is not None, "a restart does not forget it"
        again.abandon()

    return lambda: log.mark_damaged(log.segments[0], OSError(errno.EIO, "bad sector")), check


def mend(disk: Disk, store: LogStore) -> tuple[Act, Check]:
    log = the_log(store)
    log.mark_damaged(log.segments[0], OSError(errno.EIO, "bad sector"))

    def check(store: LogStore) -> None:
        assert the_log(store).corruption is None
        assert not disk.exists(f"{log.directory}/{REFETCH_FILE}")

    return log.refetched, check


def cut(disk: Disk, store: LogStore) -> tuple[Act, Check]:
    """A log of several segments, tried again as the node does."""
    jobs: list[CutJob] = []

    def act() -> None:
        log = the_log(store)
        if not jobs:
            job = log.prepare_truncation(5)
            assert job is not None
            jobs.append(job)
        elif not log.is_cutting:
            return
        jobs[0].run()
        if not jobs[0].must_repeat:
            log.complete_cut(jobs[0])

    def check(store: LogStore) -> None:
        whole = read_all(the_log(store))
        assert the_log(store).log_end_offset == 5
        store.abandon()
        again = open_store(disk)
        assert (read_all(the_log(again)), the_log(again).corruption) == (whole, None), "nothing of it comes back"
        again.abandon()

    return act, check


ACTS: Final = [
    flush,
    cut,
    roll,
    retention,
    checkpoints,
    create,
    remake,
    identify,
    give_up_a_claim,
    move,
    follow,
    damage,
    mend,
]


KINDS: Final[tuple[Kind, ...]] = ("create", "overwrite", "truncate", "rename", "unlink", "mkdir", "read")
SHORTAGES: Final = [
    *((number, "open") for number in (errno.EMFILE, errno.ENFILE, errno.ENOMEM)),
    *((errno.ENOMEM, kind) for kind in KINDS),
]
"""Not an append or a sync: nobody knows what became of the bytes."""


@pytest.mark.parametrize("prepare", ACTS)
@pytest.mark.parametrize(("number", "kind"), SHORTAGES)
def test_no_act_takes_a_shortage_for_a_broken_disk(
    prepare: Callable[[Disk, LogStore], tuple[Act, Check]], number: int, kind: Kind
) -> None:
    if kind == "rename" and prepare in (move, create):
        return  # a move is decided by the first one; what could not be made can then not be taken away either
    for left in range(STEPS_MAX):
        descriptors = Descriptors(kind)
        disk = SimulatedDisk().mount(before=descriptors, before_read=descriptors)
        store = filled(disk)
        act, check = prepare(disk, store)
        descriptors.left, descriptors.number = left, number
        try:
            act()
        except PassingFailure:
            assert descriptors.was_short
        assert [one.failure for one in store.directories] == [None, None], left
        descriptors.left = None
        act()
        check(store)
        if not descriptors.was_short:
            assert left > 0 or kind != "open", "it needs some"
            return
    raise AssertionError("it never had enough")


def test_a_start_and_a_stop_for_want_of_a_descriptor_spoil_nothing() -> None:
    """A start says so and does not begin; after such a stop the next start recovers."""
    for left in range(STEPS_MAX):
        descriptors = Descriptors()
        disk = SimulatedDisk().mount(before_read=descriptors)
        store = filled(disk)
        Registrations(disk, store, "boot").write(41)
        whole = read_all(the_log(store))
        descriptors.left = left
        store.close({WHERE: 20}, broker_epoch=41)
        assert [one.failure for one in store.directories] == [None, None], left
        was_short = descriptors.was_short
        descriptors.left, descriptors.was_short = left, False
        try:
            store = open_store(disk)
        except (PassingFailure, OSError) as error:
            if isinstance(error, OSError) and not is_passing(error):
                raise
            descriptors.left = None
            store = open_store(disk)
        descriptors.left = None
        assert [one.failure for one in store.directories] == [None, None], left
        assert read_all(the_log(store)) == whole
        assert Registrations(disk, store, "boot").whole_replicas() == {TOPIC_ID: (0,)}
        store.abandon()
        if not was_short and not descriptors.was_short:
            return
    raise AssertionError("it never had enough")


def test_damage_that_could_not_be_marked_is_marked_by_an_orderly_stop() -> None:
    descriptors = Descriptors()
    disk = SimulatedDisk().mount(before_read=descriptors)
    store = filled(disk)
    log = the_log(store)
    descriptors.left = 0
    with pytest.raises(PassingFailure):
        log.mark_damaged(log.segments[0], OSError(errno.EIO, "bad sector"))
    descriptors.left = None
    store.close({}, broker_epoch=41)
    assert the_log(open_store(disk)).corruption is not None


def test_a_shortage_at_a_stop_does_not_hide_that_the_disk_failed_another_log() -> None:
    """Where it hides it, the directory keeps its registration, and the next start claims it as whole."""
    is_stopping = False

    def refuse(operation: Operation) -> None:
        if not is_stopping or operation.kind != "fsync":
            return
        if operation.path.startswith("/one/orders-0") and operation.path.endswith(".index"):
            raise OSError(errno.ENOMEM, "out of memory", operation.path)
        if operation.path.startswith("/one/new-0"):
            raise OSError(errno.EIO, "the disk failed", operation.path)

    store = filled(SimulatedDisk().mount(before=refuse))
    append(store.create(NEW, OTHER_ID, CONFIG, store.directories[0]), b"x")
    is_stopping = True
    store.close({}, broker_epoch=41)
    assert [directory.failure is None for directory in store.directories] == [False, True]


def test_a_log_that_is_damaged_anew_while_it_is_marked_still_keeps_its_mark() -> None:
    descriptors = Descriptors()
    disk = SimulatedDisk().mount(before_read=descriptors)
    log = the_log(filled(disk))
    log.mark_damaged(log.segments[-1], OSError(errno.EIO, "bad sector"))
    descriptors.left = 0
    with pytest.raises(PassingFailure):
        log.refetched()
    descriptors.left = None
    assert log.corruption is None
    log.mark_damaged(log.segments[-1], OSError(errno.EIO, "bad sector"))
    marked = read_refetch_mark(disk, log.directory)
    assert marked is not None
    assert marked.offset == log.segments[-1].base_offset


def test_a_log_whose_cut_is_not_done_at_a_stop_is_recovered_by_the_next_start() -> None:
    """The disk has not failed: a directory that counts as failed is forgotten, and claimed by no start."""
    disk = SimulatedDisk().mount()
    store = filled(disk)
    new = store.create(NEW, OTHER_ID, CONFIG, store.directories[0])
    append(new, b"x")
    Registrations(disk, store, "boot").write(41)
    whole = read_all(the_log(store))
    assert the_log(store).prepare_truncation(5) is not None
    store.close({WHERE: 20}, broker_epoch=41)
    assert [one.failure for one in store.directories] == [None, None]
    assert new.recovery_point == 1, "the others are closed"
    store = open_store(disk)
    assert read_all(the_log(store)) == whole
    assert Registrations(disk, store, "boot").whole_replicas() == {TOPIC_ID: (0,), OTHER_ID: (0,)}
