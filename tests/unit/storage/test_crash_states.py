"""Random work on a log, a crash at any operation of the disk, and what a restart must find (promises P1, P2)."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any
from uuid import UUID

import pytest
from at_once import delete_old_segments
from simulator.killed import Killed
from storage_batches import NOW_MS, batch, headers_in, read_all, stage
from storage_machine import Machine
from store_checkpoints import write_checkpoints

from minikafka.model import TopicPartition
from minikafka.storage.config import LogConfig
from minikafka.storage.log import Log
from minikafka.storage.log_store import LogStore

WHERE = TopicPartition("orders", 0)
CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=150)
ROOT = "/data"


class Workload:
    """Drives one log and remembers which batches it must, and may, hold: bytes by base offset."""

    def __init__(self, machine: Machine, rng: Random) -> None:
        self.machine = machine
        self.rng = rng
        self.log_end_offset = 0
        self.written: list[tuple[int, bytes]] = []  # (base offset, batch), also what was just about to be written
        self.durable_offset = 0  # records below it were reported durable
        self.start_offset = 0  # records below it may be gone
        self.epoch = 0
        self.store = self.start()

    @property
    def log(self) -> Log:
        log = self.store.get(WHERE)
        assert log is not None
        return log

    def start(self) -> LogStore:
        return LogStore.open(
            self.machine.disk,
            [ROOT],
            node_id=1,
            cluster_id="cluster",
            new_uuid=lambda: UUID(int=self.rng.getrandbits(128)),
            config_for=lambda _where: CONFIG,
        )

    def create(self) -> None:
        self.store.create(WHERE, UUID(int=7), CONFIG)

    def step(self) -> None:
        acts = (
            [self.append] * 6
            + [self.flush] * 2
            + [self.truncate, self.roll, self.checkpoint, self.new_epoch, self.drop]
        )
        acts.append(self.flush_while_cut)
        self.rng.choice(acts)()

    def append(self) -> None:
        for _ in range(self.rng.randint(1, 3)):
            data = batch(*[self.rng.randbytes(self.rng.randint(0, 120)) for _ in range(self.rng.randint(1, 3))])
            info = stage(self.log, data, leader_epoch=self.epoch)
            self.written.append((info.base_offset, bytes(data)))
        self.log.commit()

    def new_epoch(self) -> None:
        self.epoch += 1

    def flush(self) -> None:
        self.log.flush()
        self.durable_offset = self.log.recovery_point

    def flush_while_cut(self) -> None:
        """The log is cut, and grows again, while a thread syncs."""
        job = self.log.prepare_flush()
        job.run()
        self.truncate()
        self.append()
        self.log.complete_flush(job)
        self.durable_offset = self.log.recovery_point

    def roll(self) -> None:
        self.log.roll()

    def checkpoint(self) -> None:
        write_checkpoints(self.store, {WHERE: 0})

    def truncate(self) -> None:
        bases = [base for base, _data in self.written]
        if not bases:
            return
        offset = self.rng.choice(bases)
        restarts = offset < self.log.segments[0].base_offset
        self.durable_offset = 0 if restarts else min(self.durable_offset, offset)
        self.log.truncate_to(offset)
        self.written = [(base, data) for base, data in self.written if base < offset]
        self.epoch += 1

    def drop(self) -> None:
        offset = self.rng.randint(self.log.log_start_offset, self.log.log_end_offset)
        self.start_offset = max(self.start_offset, offset)
        self.log.maybe_increment_log_start_offset(offset)
        delete_old_segments(self.log, self.log.log_end_offset, NOW_MS)

    def restart_in_order(self) -> None:
        self.store.close({})
        self.store = self.start()


def check(workload: Workload, *, survives_power: bool) -> None:
    """The log holds an unbroken run of what was written, at least up to the durable offset."""
    log = workload.log
    found = [(header.base_offset, header.leader_epoch) for header in headers_in(read_all(log))]
    expected = [(base, data) for base, data in workload.written if not found or base >= found[0][0]]
    assert b"".join(data for _base, data in expected).startswith(read_all(log))
    assert log.log_start_offset <= max(workload.start_offset, log.segments[0].base_offset)
    assert not found or found[0][0] <= max(log.log_start_offset, workload.start_offset)
    assert log.log_end_offset >= workload.durable_offset
    assert log.recovery_point <= log.log_end_offset
    if not survives_power:
        assert log.corruption is None
    check_epochs(workload, found)


def check_epochs(workload: Workload, found: list[tuple[int, int]]) -> None:
    """The cache says of every batch what its header says; of dropped offsets it may have forgotten more."""
    entries = workload.log.epoch_entries
    for offset, epoch in found:
        if offset >= workload.start_offset:
            assert workload.log.epoch_for_offset(offset) == epoch
    bases = {offset for offset, _epoch in found}
    for entry in entries:
        if entry.start_offset > max(workload.start_offset, workload.log.log_start_offset):
            assert entry.start_offset in bases or entry.start_offset == workload.log.log_end_offset


def run(seed: int, *, power: bool) -> None:
    rng = Random(seed)
    machine = Machine()
    workload = Workload(machine, rng)
    workload.create()
    workload.flush()
    workload.checkpoint()
    for _life in range(3):
        machine.budget = rng.randint(5, 120)
        try:
            while True:
                workload.step()
                if rng.random() < 0.05:
                    workload.restart_in_order()
        except Killed:
            machine.kill()
        if power:
            machine.lose_power(rng)
        workload.store = workload.start()
        check(workload, survives_power=power)
        workload.written = [(base, data) for base, data in workload.written if base < workload.log.log_end_offset]
        if workload.log.corruption is not None:
            workload.log.refetched()
        workload.epoch += 1


def blocks(count: int, *, quick: int) -> list[Any]:
    """Of forty lives each; all but the first are left to ``make test-long``."""
    return [pytest.param(number, marks=[] if number < quick else pytest.mark.long) for number in range(count)]


@pytest.mark.spec("P2")
@pytest.mark.spec("E1")
@pytest.mark.parametrize("block", blocks(10, quick=4))
def test_what_was_flushed_survives_a_power_cut_at_any_operation(block: int) -> None:
    for seed in range(block * 40, block * 40 + 40):
        run(seed, power=True)


@pytest.mark.spec("P1")
@pytest.mark.parametrize("block", blocks(5, quick=2))
def test_nothing_written_is_lost_when_the_process_is_killed(block: int) -> None:
    for seed in range(block * 40, block * 40 + 40):
        run(10_000 + seed, power=False)


def test_an_append_that_returned_survives_kill_at_any_later_operation() -> None:
    for budget in range(1, 60):
        machine = Machine()
        workload = Workload(machine, Random(budget))
        workload.create()
        workload.append()
        kept = len(workload.written)
        machine.budget = budget
        with suppress(Killed):
            while True:
                workload.flush()
                workload.roll()
                workload.append()
        machine.kill()
        workload.store = workload.start()
        assert len(headers_in(read_all(workload.log))) >= kept


def test_a_new_log_its_name_and_its_topic_id_are_durable_with_its_first_flush() -> None:
    for seed in range(60):
        machine = Machine()
        workload = Workload(machine, Random(seed))
        workload.create()
        workload.append()
        workload.flush()
        machine.lose_power(workload.rng)
        workload.store = workload.start()
        assert workload.log.topic_id == UUID(int=7)
        assert workload.log.log_end_offset == workload.durable_offset > 0


def test_the_indexes_of_a_segment_rolled_after_its_flush_are_durable() -> None:
    for seed in range(60):
        machine = Machine()
        workload = Workload(machine, Random(seed))
        workload.create()
        for _ in range(3):
            stage(workload.log, batch(b"x" * 150))
        workload.log.commit()
        workload.restart_in_order()
        workload.roll()
        stage(workload.log, batch(b"y"))
        workload.log.commit()
        machine.lose_power(workload.rng)
        workload.store = workload.start()
        assert workload.log.segments[0].max_timestamp == (NOW_MS, 0)
        assert workload.log.corruption is None


def test_a_restart_of_the_log_that_was_cut_short_is_not_taken_for_damage() -> None:
    is_finished, budget = False, 0
    while not is_finished:
        budget += 1
        machine = Machine()
        workload = Workload(machine, Random(budget))
        workload.create()
        for _ in range(5):
            workload.append()
        workload.flush()
        workload.checkpoint()
        machine.budget = budget
        with suppress(Killed):
            workload.log.truncate_fully_and_start_at(50)
            is_finished = True
        machine.lose_power(workload.rng)
        workload.store = workload.start()
        assert workload.log.corruption is None
        assert not is_finished or workload.log.log_end_offset == 50
    assert budget > 5
