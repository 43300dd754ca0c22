"""A life of a broker that registers: what a restart may tell the controller of its records (KIP-966)."""

from __future__ import annotations

from collections.abc import Hashable
from random import Random
from typing import Self

from crash_damage import check_damages
from crash_logs import WHERE, LogLife, open_store
from simulator.disk import MountedDisk

from minikafka.records.batch import iter_batches
from minikafka.storage.registration import Registrations
from minikafka.storage.registration_file import read_registration

MIXES: dict[str, dict[str, int]] = {
    "registrations": {"append": 4, "flush": 1, "register": 3, "stop_and_start": 2},
    "registered logs": {
        "append": 6,
        "flush": 1,
        "register": 2,
        "roll": 2,
        "checkpoint": 3,
        "truncate": 2,
        "start_at": 1,
        "drop": 1,
        "clear_away": 1,
        "new_epoch": 1,
        "stop_and_start": 1,
        "lose_end": 1,
        "go_bad": 1,
    },
}


class RegisteredLife(LogLife):
    """``registered``: the registrations whose records are all there. A machine that loses power has another boot id."""

    mixes = MIXES

    def __init__(self, disk: MountedDisk, rng: Random, mix: str, steps: int) -> None:
        super().__init__(disk, rng, mix, steps)
        self.boots = 0
        self.newest = 0  # that the controller gave
        self.registered: set[int] = set()
        self.is_registered = False

    def promises(self) -> Hashable:
        return super().promises(), self.boots, tuple(sorted(self.registered)), self.is_registered

    def restarted(self, disk: MountedDisk, *, lost_power: bool) -> Self:
        life = super().restarted(disk, lost_power=lost_power)
        life.boots = self.boots + lost_power
        life.newest = self.newest
        previous = life.registrations().previous_broker_epoch
        may_be = self.registered if self.is_stopping or not lost_power else set()
        assert previous < 0 or previous in may_be, "a registration is continued only when nothing of it is lost"
        is_whole = life.log is None or life.log.corruption is None
        if not lost_power and is_whole and self.is_registered:
            assert previous in self.registered, "a process that was killed is continued"
        life.is_registered = previous >= 0 and not lost_power
        life.registered = {previous} if previous >= 0 else set()
        return life

    def registrations(self) -> Registrations:
        """As a start reads them."""
        return Registrations(self.disk, self.store_, self.boot_id())

    def boot_id(self, *, lost_power: bool = False) -> str:
        return f"boot {self.boots + lost_power}"

    def register(self) -> None:
        """The controller has given this process an epoch."""
        registrations = self.registrations()
        self.newest += 1
        self.registered.add(self.newest)
        registrations.write(self.newest)
        self.registered = {self.newest}
        self.is_registered = True
        self.broker_epoch = self.newest

    def go_bad(self) -> None:
        """Damaged while the process is down, on copies of the disk."""
        registration = read_registration(self.disk, self.roots[0])
        if registration is not None and registration.is_of_boot(self.boot_id()):
            check_damages(
                self.disk.platter,
                WHERE,
                self.boot_id(),
                lambda disk: open_store(disk, Random(1), self.roots, self.boot_id()),
            )

    def lose_end(self) -> None:
        """Killed, and the file that was written is cut between two batches, or emptied: the next start knows."""
        path = f"{self.log_.directory}/{self.log_.active_base_offset:020d}.log"
        node = self.disk.platter.inode(path)
        registration = read_registration(self.disk, self.roots[0])
        if registration is None or not registration.is_of_boot(self.boot_id()) or not node.content:
            return
        position, header = self.rng.choice(list(iter_batches(bytes(node.content))))
        self.store_.abandon()
        node.become(node.content[:position])
        self.is_damaged = True
        end = header.base_offset
        self.committed, self.durable = min(self.committed, end), min(self.durable, end)
        self.high_watermarks |= {min(offset, end) for offset in self.high_watermarks}
        if end < self.start:
            self.recorded_start = 0  # it begins where its first segment does
        self.written = [batch for batch in self.written if batch.base_offset < end]
        self.store = open_store(self.disk, self.rng, self.roots, self.boot_id())
        assert self.log_.corruption is not None, "a log that lost its end after a kill is damaged"
        self.producers = self.producers.after_loss(self.written)
        self.epoch += 1
        self.refetch()
