"""What is damaged while a process is down must be told by its start: a log that is claimed holds what it held.

Each damage is tried on a copy of the disk, after a kill and after an orderly stop, so that the life itself goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from simulator.disk import MountedDisk, SimulatedDisk
from simulator.disk.damage import damage, plant

from minikafka.errors import KafkaError
from minikafka.model import TopicPartition
from minikafka.records.batch import iter_batches, parse_header
from minikafka.storage.log import Log
from minikafka.storage.log_store import LogStore
from minikafka.storage.registration import Registrations
from minikafka.storage.segment_list import SEGMENTS_FILE
from minikafka.storage.segment_names import MAX_OFFSET

FOREIGN_OFFSET = 1 << 40

BITS = (0, 1, 2, 5, 40)
"""Of a base offset: it moves by a batch or two, behind the end of the log, or farther than a segment reaches."""

EPOCH_BITS = (0, 1, 2, 9)
"""Of a leader epoch: an earlier one, or one that a later leader may have begun at that place."""

Batches = dict[int, bytes]
"""By base offset."""
Damaging = Callable[[SimulatedDisk], object]
Start = Callable[[MountedDisk], LogStore]


def check_damages(platter: SimulatedDisk, tp: TopicPartition, boot_id: str, start: Start) -> None:
    """Damage one copy of the disk after the other. ``start`` opens a store as the next process does."""
    for is_stopped in (False, True):
        whole = platter.copy()
        whole.kill()
        log = _started(whole, tp, start, stops=is_stopped)
        if log.corruption is not None or not log.size_in_bytes:
            return
        before, directory = _served(log), log.directory
        gone = whole.copy()
        gone.kill()
        damage(gone, directory, "lost", _First())
        assert start(gone.mount()).is_missing(tp, log.topic_id), "a log whose directory is lost is missing"
        for what, damaging in _damages(whole, directory):
            damaged = whole.copy()
            damaged.kill()
            damaging(damaged)
            disk = damaged.mount()
            store = start(disk)
            found = store.get(tp)
            assert found is not None
            how = f"{what}, while the node is down after {'an orderly stop' if is_stopped else 'a kill'},"
            assert found.log_end_offset <= log.log_end_offset, f"{how} makes no log longer"
            if found.corruption is not None:
                end = found.corruption.offset
                served = _above(_served(found, end), log.log_start_offset)
                assert served == _below(before, end), f"{how} changed nothing below what is said"
            elif tp.partition in Registrations(disk, store, boot_id).whole_replicas().get(log.topic_id, ()):
                assert _served(found) == before or found.corruption is not None, f"{how} is noticed"


def _served(log: Log, end: int = MAX_OFFSET) -> Batches:
    """What can be read of the log below ``end``. It ends where damage is noticed."""
    served: Batches = {}
    offset = log.log_start_offset
    while offset < min(end, log.log_end_offset):
        try:
            data = log.read(offset, 1).read()
        except KafkaError:
            assert log.corruption is not None
            break
        if not data:
            break
        for position, header in iter_batches(data):
            served[header.base_offset] = data[position : position + header.size_in_bytes]
            offset = header.next_offset
    return _below(served, end)


def _below(batches: Batches, end: int) -> Batches:
    return {base: data for base, data in batches.items() if parse_header(data).next_offset <= end}


def _above(batches: Batches, start: int) -> Batches:
    """What was deleted is there again in a log that is damaged below its start; all of it will be fetched anew."""
    return {base: data for base, data in batches.items() if parse_header(data).next_offset > start}


def _started(platter: SimulatedDisk, tp: TopicPartition, start: Start, *, stops: bool) -> Log:
    """The log as it is whole; with ``stops`` the process has ended orderly since."""
    if stops:
        start(platter.mount()).close({}, broker_epoch=1)
    log = start(platter.copy().mount()).get(tp)
    assert log is not None
    return log


def _damages(platter: SimulatedDisk, directory: str) -> Iterator[tuple[str, Damaging]]:
    files = sorted(platter.directory(directory).entries)
    bases = [int(name[:20]) for name in files if name.endswith(".log")]
    for at, base in enumerate(bases):
        if len(bases) > 1:
            yield f"the loss of segment {at} of {len(bases)}", _losing(directory, f"{base:020d}")
            yield f"the loss of segment {at} and of the list", _losing(directory, f"{base:020d}", SEGMENTS_FILE)
    yield "a foreign file in the place of all others", _replacing(directory)
    for base in bases:
        path = f"{directory}/{base:020d}.log"
        for position, header in iter_batches(bytes(platter.inode(path).content)):
            for bit in BITS:
                what = f"bit {bit} of base offset {header.base_offset} in segment {base} of {bases}"
                yield what, _flipping(path, position + 7 - bit // 8, 1 << bit % 8)
    for position, header in list(iter_batches(bytes(platter.inode(path).content)))[-1:]:
        for bit in EPOCH_BITS:
            what = f"bit {bit} of the leader epoch {header.leader_epoch} of the last batch, at {header.base_offset},"
            yield what, _flipping(path, position + 15 - bit // 8, 1 << bit % 8)


def _losing(directory: str, *stems: str) -> Damaging:
    def lose(platter: SimulatedDisk) -> None:
        for name in list(platter.directory(directory).entries):
            if name.startswith(stems):
                damage(platter, f"{directory}/{name}", "lost", _First())

    return lose


def _replacing(directory: str) -> Damaging:
    def replace(platter: SimulatedDisk) -> None:
        for name in list(platter.directory(directory).entries):
            if name.endswith(".log"):
                damage(platter, f"{directory}/{name}", "lost", _First())
        plant(platter, f"{directory}/{FOREIGN_OFFSET:020d}.log")

    return replace


def _flipping(path: str, position: int, bits: int) -> Damaging:
    def flip(platter: SimulatedDisk) -> None:
        node = platter.inode(path)
        content = bytearray(node.content)
        content[position] ^= bits
        node.become(content)

    return flip


class _First:
    """Nothing is left to choose."""

    def randrange(self, stop: int, /) -> int:
        return 0
