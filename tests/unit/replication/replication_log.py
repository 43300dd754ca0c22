"""A log in memory with a leader-epoch cache: the twin of a real log for the tests of replication."""

from __future__ import annotations

from minikafka.model import NO_EPOCH, UNDEFINED_OFFSET_AND_EPOCH, OffsetAndEpoch


class MemoryLog:
    """Records are (epoch, value) pairs; the record at index i has offset ``log_start_offset + i``.

    Row E2 is written here as plainly as it can be, by searching all entries.
    """

    is_cleaned = False

    def __init__(self, records=(), *, log_start_offset=0, high_watermark=0):
        self.log_start_offset = log_start_offset
        self.high_watermark = high_watermark
        self.records = []
        self.epochs = []  # (epoch, start offset)
        self.extend(records)

    @property
    def log_end_offset(self):
        return self.log_start_offset + len(self.records)

    @property
    def recovery_point(self):
        """Everything is synced at once."""
        return self.log_end_offset

    @property
    def latest_epoch(self):
        return self.epochs[-1][0] if self.epochs else NO_EPOCH

    def begin_epoch(self, epoch):
        if epoch > self.latest_epoch:
            while self.epochs and self.epochs[-1][1] >= self.log_end_offset:
                self.epochs.pop()
            self.epochs.append((epoch, self.log_end_offset))

    def extend(self, records):
        for record in records:
            if record[0] != self.latest_epoch:
                assert record[0] > self.latest_epoch, f"epoch {record[0]} after {self.latest_epoch}"
                self.begin_epoch(record[0])
            self.records.append(record)

    def append(self, epoch, *values):
        self.extend([(epoch, value) for value in values])

    def read(self, offset, count):
        at = offset - self.log_start_offset
        return self.records[at : at + count]

    def truncate_to(self, offset):
        del self.records[max(0, offset - self.log_start_offset) :]
        while self.epochs and self.epochs[-1][1] >= self.log_end_offset:
            self.epochs.pop()
        self.high_watermark = min(self.high_watermark, self.log_end_offset)

    def restart_at(self, offset):
        self.records, self.epochs = [], []
        self.log_start_offset = self.high_watermark = offset

    def follow(self, high_watermark, log_start_offset):
        if log_start_offset > self.log_start_offset:
            del self.records[: log_start_offset - self.log_start_offset]
            self.log_start_offset = log_start_offset
            held = [entry for entry in self.epochs if entry[1] <= log_start_offset][-1:]
            later = [entry for entry in self.epochs if entry[1] > log_start_offset]
            self.epochs = [(epoch, log_start_offset) for epoch, _ in held] + later
        self.high_watermark = min(high_watermark, self.log_end_offset)

    def end_offset_for_epoch(self, epoch):
        if epoch == NO_EPOCH or not self.epochs or epoch > self.latest_epoch:
            return UNDEFINED_OFFSET_AND_EPOCH
        if epoch == self.latest_epoch:
            return OffsetAndEpoch(self.log_end_offset, epoch)
        if epoch < self.epochs[0][0]:
            return OffsetAndEpoch(self.epochs[0][1], epoch)
        floor = max(known for known, _ in self.epochs if known <= epoch)
        return OffsetAndEpoch(min(start for known, start in self.epochs if known > floor), floor)
