"""A broker as the controller's schedules have it: one replica of one partition, its disk, and what it leads."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from minikafka.wire.messages.alter_partition import AlterPartitionTopic

Entry = tuple[int, int]  # (leader epoch, number)

POWER_LOST, ANYTHING_LOST = -1, -2


@dataclass
class Proposal:
    """An ISR on its way to the controller, once or more often; ``counted`` may be in sync until it is settled."""

    broker_epoch: int
    change: AlterPartitionTopic
    counted: set[int]
    sent: int = 1


@dataclass(frozen=True)
class Copy:
    """What somebody kept of a broker's disks."""

    recorded: int
    memory: int
    directories: tuple[UUID, ...]
    placed: UUID | None
    log: tuple[Entry, ...]
    synced: int


@dataclass
class Broker:
    """A replica as R4, R18 and R21 have it; its view of the metadata may be old.

    A new process acts on metadata from its own registration on: before, it could see itself lead in a former epoch
    with an ISR that its former process had proposed to change, and acknowledge what the added member does not have.
    """

    broker_id: int
    view: int = 0  # the image it has replayed
    up: bool = True
    begins: int = 0  # the first view that has its registration
    broker_epoch: int = -1

    # Its disks.
    memory: int = ANYTHING_LOST  # the registration that it would say it continues
    recorded: int = -1  # the one that its directories name
    directories: list[UUID] = field(default_factory=list)
    failed: set[UUID] = field(default_factory=set)
    forgotten: set[UUID] = field(default_factory=set)  # those that failed since it registered: nothing there is claimed
    placed: UUID | None = None  # the directory that has its log
    log: list[Entry] = field(default_factory=list)
    synced: int = 0
    lost: bool = False  # records, of which its next registration will tell
    damaged: bool = False  # its log, while nothing was running; a start finds it
    copy: Copy | None = None
    lived: int = -1  # the last registration under which it was unfenced
    is_copy: bool = False  # its disks hold what they held in an earlier life

    # While it leads.
    led_epoch: int = -1
    epoch_start: int = 0
    high_watermark: int = 0
    fetched: dict[int, tuple[int, int]] = field(default_factory=dict)  # follower: (its log end, its broker epoch)
    replicas: tuple[int, ...] = ()
    minimum: int = 1
    isr: tuple[int, ...] = ()  # as last heard, from metadata or in an answer
    partition_epoch: int = -1
    proposed: Proposal | None = None

    @property
    def takes_part(self) -> bool:
        return self.up and self.view >= self.begins and self.placed is not None and self.placed not in self.failed

    @property
    def online(self) -> list[UUID]:
        return [one for one in self.directories if one not in self.failed]

    def forget(self) -> None:
        """The process is gone, and with it what it knew as leader."""
        self.up = False
        self.led_epoch, self.partition_epoch, self.fetched, self.proposed = -1, -1, {}, None

    def make_log(self, directory: UUID | None) -> None:
        """An empty log in that directory, or none at all."""
        self.placed, self.log, self.synced, self.high_watermark = directory, [], 0, 0

    def keep_copy(self) -> None:
        """Of this life, as a process that is killed now would leave it; one of an earlier life stays."""
        is_older = self.copy is not None and self.copy.recorded < self.recorded
        if not is_older and self.recorded == self.lived and not (self.failed or self.is_copy or self.lost):
            directories = tuple(self.directories)
            self.copy = Copy(self.recorded, self.memory, directories, self.placed, tuple(self.log), self.synced)

    def put_copy_back(self, *, is_other_boot: bool) -> None:
        """If it is of an earlier life: one of this life is told by nothing."""
        copy = self.copy
        if copy is not None and copy.recorded < self.lived and copy.directories == tuple(self.directories):
            self.recorded, self.memory = copy.recorded, POWER_LOST if is_other_boot else copy.memory
            self.placed, self.log, self.synced = copy.placed, list(copy.log), copy.synced
            self.high_watermark = min(self.high_watermark, len(self.log))
            self.failed.clear()
            self.forgotten.clear()
            self.is_copy = self.lost = True
            self.copy = None

    def cut(self, end: int) -> None:
        del self.log[end:]
        self.synced = min(self.synced, end)
        self.high_watermark = min(self.high_watermark, end)

    def lead(self, leader_epoch: int) -> None:
        self.led_epoch, self.epoch_start = leader_epoch, len(self.log)
        self.fetched, self.partition_epoch, self.proposed = {}, -1, None

    def commit(self, isr: tuple[int, ...], partition_epoch: int, *, is_answer: bool = False) -> bool:
        """What is newer, or answers the proposal, settles it."""
        if partition_epoch > self.partition_epoch or (is_answer and partition_epoch == self.partition_epoch):
            self.proposed = None
            self.isr, self.partition_epoch = isr, partition_epoch
            return True
        return False

    def committed_end(self) -> int:
        """The high watermark by the larger ISR; it stands while the ISR is below the minimum."""
        if len(self.isr) < min(self.minimum, len(self.replicas)):
            return self.high_watermark
        isr = set(self.isr) | (self.proposed.counted if self.proposed else set())
        ends = [self.fetched.get(member, (0, 0))[0] for member in isr if member != self.broker_id]
        return max(self.high_watermark, min([len(self.log), *ends]))

    def may_join(self, follower: int) -> bool:
        """Row R18."""
        return self.fetched.get(follower, (-1, 0))[0] >= max(self.high_watermark, self.epoch_start)

    def epoch_of(self, member: int) -> int:
        return self.broker_epoch if member == self.broker_id else self.fetched.get(member, (0, -1))[1]
