"""Every kind of file in a partition's directory, damaged in every way, after an orderly stop and after a kill.

The node always starts. The log either is what it was, or is known to be damaged and can be mended by fetching it again;
and nothing is served that was not written.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import Final

import pytest
from simulator.disk import SimulatedDisk
from storage_batches import append, headers_in, read_all
from storage_damage import (
    ABORTING,
    BOOT,
    CONFIG,
    OTHER_ID,
    ROOT,
    STOPS,
    TOPIC_ID,
    WAYS,
    WHERE,
    cases,
    leave,
    open_store,
)
from store_checkpoints import write_checkpoints

from minikafka.errors import KafkaError
from minikafka.model import ZERO_TOPIC_ID
from minikafka.records.batch import iter_batches
from minikafka.storage.disk import Disk
from minikafka.storage.log import Log
from minikafka.storage.log_ends import LOG_ENDS_FILE
from minikafka.storage.meta import write_topic_id
from minikafka.storage.registration import Registrations

UNCHECKED: Final = (*range(8), *range(12, 16))
"""Bytes of a batch that its checksum does not cover: base offset and leader epoch, which the broker fills in."""


@pytest.fixture(scope="module", params=STOPS)
def left(request: pytest.FixtureRequest) -> tuple[SimulatedDisk, bytes]:
    """What a process leaves, and what the log holds."""
    return leave(request.param)


@pytest.mark.spec("P5")
@pytest.mark.spec("P6")
def test_every_damage_to_a_partition_is_survived(left: tuple[SimulatedDisk, bytes]) -> None:
    platter, whole = left
    seen = []
    for name, way in cases(platter.mount()):
        disk = platter.copy().mount()
        WAYS[way](disk, f"{ROOT}/{WHERE}/{name}")
        try:
            seen.append(check(disk, whole))
        except Exception as error:
            error.add_note(f"{name}: {way}")
            raise
    assert {"whole", "damaged"} <= set(seen)


def check(disk: Disk, whole: bytes) -> str:
    store = open_store(disk)
    claimed = Registrations(disk, store, BOOT).whole_replicas()
    assert claimed[OTHER_ID] == (0,), "the other replicas are not concerned"
    log = store.get(WHERE)
    if log is None:  # it is set aside, and fetched again from the beginning
        assert WHERE in store.unusable()
        assert TOPIC_ID not in claimed
        store.abandon()
        return "unusable"
    if log.topic_id not in (TOPIC_ID, ZERO_TOPIC_ID):
        assert TOPIC_ID not in claimed, "metadata tells that it is not that topic's, or that its id is damaged"
        store.abandon()
        return "taken for another topic's"
    assert (TOPIC_ID in claimed) == (log.corruption is None)
    is_served_whole = serve(log, whole)
    look_for_aborted(log)
    assert is_served_whole or log.corruption is not None, "a log that is not whole knows it"
    store.abandon()
    if log.corruption is None:
        return "whole"
    store = open_store(disk)
    log = store.get(WHERE)
    assert log is not None
    assert log.corruption is not None, "a restart does not make it whole"
    mend(log, whole)
    store.close({WHERE: log.log_end_offset}, broker_epoch=42)
    store = open_store(disk)
    log = store.get(WHERE)
    assert log is not None
    assert (log.corruption, read_all(log)) == (None, whole)
    store.abandon()
    return "damaged"


def look_for_aborted(log: Log) -> None:
    """Whatever the index is, it can be asked."""
    with suppress(KafkaError):
        job = log.aborted.prepare(log.log_start_offset, log.log_end_offset)
        if job is not None:
            job.run()
            log.complete_read(job)
        found = log.aborted.between(log.log_start_offset, log.log_end_offset)
        assert found is not None
        assert {one.producer_id for one in found} <= {ABORTING}


def serve(log: Log, whole: bytes) -> bool:
    """Read everything; True when it was everything."""
    batches = {header.base_offset: whole[at : at + header.size_in_bytes] for at, header in iter_batches(whole)}
    offset, found = log.log_start_offset, b""
    while offset < log.log_end_offset:
        try:
            data = log.read(offset, 1 << 20).read()
        except KafkaError:
            return False
        if not data:
            break
        for position, header in iter_batches(data):
            assert batches[header.base_offset] == data[position : position + header.size_in_bytes]
        found += data
        offset = headers_in(data)[-1].next_offset
    return found == whole


def mend(log: Log, whole: bytes) -> None:
    """As a follower does: cut where the damage begins, fetch from there on."""
    assert log.corruption is not None
    log.truncate_to(log.corruption.offset)
    for at, header in iter_batches(whole):
        if header.base_offset >= log.log_end_offset:
            log.append_as_follower(memoryview(bytearray(whole[at : at + header.size_in_bytes])))
    write_topic_id(log.disk, log.directory, TOPIC_ID)
    log.refetched()


@pytest.mark.spec("P5")
def test_every_bit_of_the_last_batch_counts_after_a_kill() -> None:
    """Row 2 of issue 11: a process that is killed leaves whole what it has acknowledged; other bits are damage."""
    disk = SimulatedDisk().mount()
    store = open_store(disk)
    Registrations(disk, store, BOOT).write(41)
    log = store.create(WHERE, TOPIC_ID, CONFIG)
    append(log, b"first")
    append(log, b"last")
    store.abandon()
    path = f"{ROOT}/{WHERE}/{0:020d}.log"
    written = disk.read_bytes(path)
    begin = [position for position, _header in iter_batches(written)][1]
    for at in range(begin, len(written)):
        if at - begin in UNCHECKED:
            continue
        for bit in range(8):
            damaged = bytearray(written)
            damaged[at] ^= 1 << bit
            disk.write_bytes(path, damaged)
            store = open_store(disk)
            log = store.get(WHERE)  # type: ignore[assignment]
            assert log.corruption is not None, (at - begin, bit)
            assert log.corruption.offset == log.log_end_offset == 1
            store.abandon()
            disk.unlink(f"{ROOT}/{WHERE}/needs-refetch")


@pytest.mark.spec("P1")
@pytest.mark.spec("P5")
def test_the_last_write_of_a_killed_process_may_be_there_in_part() -> None:
    """It was acknowledged to nobody, or the file was cut: the log goes on without it, but is not claimed before that.

    Not by a process that was killed before it registered, either. Its noted end, if that is right, tells: the disk
    refused to raise it here.
    """
    disk = SimulatedDisk().mount()
    store = open_store(disk)
    Registrations(disk, store, BOOT).write(41)
    log = store.create(WHERE, TOPIC_ID, CONFIG)
    append(log, b"first")
    ends_of_logs = disk.read_bytes(f"{ROOT}/{LOG_ENDS_FILE}")
    for value in (b"second", b"third"):
        append(log, value)
    write_checkpoints(store, {WHERE: 1})
    store.abandon()
    path = f"{ROOT}/{WHERE}/{0:020d}.log"
    written = disk.read_bytes(path)
    ends = [0, *(position + header.size_in_bytes for position, header in iter_batches(written))]
    for size in range(ends[1], len(written)):
        disk.write_bytes(path, written[:size])
        disk.write_bytes(f"{ROOT}/{LOG_ENDS_FILE}", ends_of_logs)
        for start in (1, 2):
            store = open_store(disk)
            log = store.get(WHERE)  # type: ignore[assignment]
            assert log.corruption is None, size
            assert log.log_end_offset == sum(end <= size for end in ends[1:])
            registrations = Registrations(disk, store, BOOT)
            assert (TOPIC_ID in registrations.whole_replicas()) == (size in ends)
            if start == 2:
                registrations.write(42)
                assert TOPIC_ID in registrations.whole_replicas()
            store.abandon()


@pytest.mark.spec("P5")
@pytest.mark.parametrize("way", ["killed", "killed without a noted end", "power lost"])
def test_a_log_that_ends_below_its_high_watermark_is_damaged_after_a_kill(way: str) -> None:
    """Row 2 of issue 11. A power cut may take what was not synced; the registration says so then (KIP-966).

    Without its noted end only the checkpoint tells.
    """
    disk = SimulatedDisk().mount()
    store = open_store(disk)
    Registrations(disk, store, "an earlier boot" if way == "power lost" else BOOT).write(41)
    log = store.create(WHERE, TOPIC_ID, CONFIG)
    for value in (b"first", b"second", b"third"):
        append(log, value)
    write_checkpoints(store, {WHERE: 3})
    store.abandon()
    path = f"{ROOT}/{WHERE}/{0:020d}.log"
    first = next(iter(iter_batches(disk.read_bytes(path))))[1]
    disk.write_bytes(path, disk.read_bytes(path)[: first.size_in_bytes])
    if way == "killed without a noted end":
        disk.unlink(f"{ROOT}/{LOG_ENDS_FILE}")
    store = open_store(disk)
    log = store.get(WHERE)  # type: ignore[assignment]
    assert log.log_end_offset == 1
    if way != "power lost":
        assert log.corruption is not None
        assert log.corruption.offset == 1
    else:
        assert log.corruption is None
    assert store.high_watermark(WHERE) == 1
    store.abandon()


def test_a_log_that_is_cut_on_purpose_is_not_missed() -> None:
    """The checkpoint of the high watermark falls before the log is cut below it."""
    disk = SimulatedDisk().mount()
    store = open_store(disk)
    Registrations(disk, store, BOOT).write(41)
    log = store.create(WHERE, TOPIC_ID, CONFIG)
    for value in (b"first", b"second", b"third"):
        append(log, value)
    write_checkpoints(store, {WHERE: 3})
    log.truncate_to(1)
    store.abandon()
    store = open_store(disk)
    assert store.get(WHERE).corruption is None  # type: ignore[union-attr]
    assert store.high_watermark(WHERE) == 1
    store.abandon()


@pytest.mark.spec("P5")
def test_segments_that_are_missing_as_a_whole_are_missed_after_an_orderly_stop() -> None:
    disk = SimulatedDisk().mount()
    store = open_store(disk)
    Registrations(disk, store, BOOT).write(41)
    log = store.create(WHERE, TOPIC_ID, CONFIG)
    for number in range(9):
        append(log, b"%d" % number * 30)
    bases = [segment.base_offset for segment in log.segments]
    assert all(one < other for one, other in pairwise(bases))
    store.close({WHERE: 9}, broker_epoch=41)
    for kind in (".log", ".index", ".timeindex"):
        disk.unlink(f"{ROOT}/{WHERE}/{0:020d}{kind}")
    store = open_store(disk)
    log = store.get(WHERE)  # type: ignore[assignment]
    assert log.corruption is not None
    assert log.corruption.offset == 0
    assert log.log_start_offset == bases[1]
    store.abandon()
