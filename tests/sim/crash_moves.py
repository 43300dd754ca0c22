"""A life of a log that moves between two log directories of its node (row A5)."""

from __future__ import annotations

from random import Random
from typing import Self

from at_once import reconcile, seal
from crash_logs import WHERE, LogLife
from simulator.disk import MountedDisk

from minikafka.storage.moving import ReplicaMove

MIXES: dict[str, dict[str, int]] = {
    "moves": {
        "append": 4,
        "flush": 1,
        "move": 8,
        "checkpoint": 1,
        "new_epoch": 1,
        "truncate": 1,
        "drop": 1,
        "clear_away": 1,
    }
}


class MovingLife(LogLife):
    """See the module. Wherever it is, there is one log, and it holds what was promised."""

    mixes = MIXES
    roots = ("/one", "/two")

    def __init__(self, disk: MountedDisk, rng: Random, mix: str, steps: int) -> None:
        super().__init__(disk, rng, mix, steps)
        self.way: ReplicaMove | None = None

    def restarted(self, disk: MountedDisk, *, lost_power: bool) -> Self:
        life = super().restarted(disk, lost_power=lost_power)
        homes = [directory for directory in life.store_.directories if WHERE in directory.logs]
        copies = [directory for directory in life.store_.directories if WHERE in directory.futures]
        assert len(homes) <= 1, "a log is in one directory"
        assert len(copies) <= len(homes), "there is no copy of what is not there"
        assert not set(map(id, homes)) & set(map(id, copies)), "no log moves to where it is"
        life.way = next(iter(life.store_.moves.under_way()), None)
        return life

    def move(self) -> None:
        """Begin, copy a piece, or let the copy take the log's place."""
        if self.way is None or self.way.is_over:
            home = self.store_.log_dir_of(WHERE)
            target = next(directory for directory in self.store_.directories if directory is not home)
            self.way = self.store_.moves.begin(WHERE, target)
        reconcile(self.way)
        self.way.append(self.way.next_slice(1 << 20).read())
        if self.way.is_caught_up and self.rng.random() < 0.7:
            self._arrive(self.way)

    def _arrive(self, way: ReplicaMove) -> None:
        high_watermark = self.rng.randint(self.log_.log_start_offset, self.log_.log_end_offset)
        self.high_watermarks.add(high_watermark)
        self.start = max(self.start, way.future.log_start_offset)  # the copy never had what a crash brought back
        seal(way)
        sealed = self.log_.log_end_offset
        arrival = self.store_.moves.arrive(way, high_watermark)
        self.way = None
        for step in (arrival.make_departure_durable, arrival.enter, arrival.make_entry_durable):
            if self.rng.random() < 0.5:
                self.append()
            step()
        arrival.complete()
        self.high_watermarks, self.recorded_start = {high_watermark}, self.log_.log_start_offset
        self.durable = sealed
        self.is_flushed = True
