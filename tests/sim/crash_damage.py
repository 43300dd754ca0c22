"""What is damaged while a process is down must be told by its start: a log that is claimed holds what it held.

Each damage is tried on a copy of the disk, after a kill and after an orderly stop, so that the life itself goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from crash_batches import read_all

from minikafka.model import TopicPartition
from minikafka.storage.log import Log
from minikafka.storage.log_store import LogStore
from minikafka.storage.registration import Registrations
from minikafka.storage.segment_list import SEGMENTS_FILE
from minikafka.testing.disk import MountedDisk, SimulatedDisk
from minikafka.testing.disk.damage import damage, plant

FOREIGN_OFFSET = 1 << 40

Damaging = Callable[[SimulatedDisk], object]
Start = Callable[[MountedDisk], LogStore]


def check_damages(platter: SimulatedDisk, where: TopicPartition, boot_id: str, start: Start) -> None:
    """Damage one copy of the disk after the other. ``start`` opens a store as the next process does."""
    for is_stopped in (False, True):
        whole = platter.copy()
        whole.kill()
        log = _started(whole, where, start, stops=is_stopped)
        if log.corruption is not None or not log.size_in_bytes:
            return
        before, directory = read_all(log), log.directory
        for what, damaging in _damages(whole, directory):
            damaged = whole.copy()
            damaged.kill()
            damaging(damaged)
            disk = damaged.mount()
            store = start(disk)
            if where.partition in Registrations(disk, store, boot_id).whole_replicas().get(log.topic_id, ()):
                claimed = store.get(where)
                assert claimed is not None
                how = "an orderly stop" if is_stopped else "a kill"
                assert read_all(claimed).endswith(before), f"{what} while the node is down after {how} is noticed"


def _started(platter: SimulatedDisk, where: TopicPartition, start: Start, *, stops: bool) -> Log:
    """The log as it is whole; with ``stops`` the process has ended orderly since."""
    if stops:
        start(platter.mount()).close({}, broker_epoch=1)
    log = start(platter.copy().mount()).get(where)
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


class _First:
    """Nothing is left to choose."""

    def randrange(self, stop: int, /) -> int:
        return 0
