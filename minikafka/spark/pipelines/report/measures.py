"""The values of a report, and their sums. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

QUANTILES: Final = (0.5, 0.9, 0.99)
_STEPS_MS: Final = (
    *(digit * 10**power for power in range(3) for digit in (1, 2, 5)),
    *(seconds * 1000 for seconds in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600)),
    *(days * 86_400_000 // 2 for days in (1, 2, 4, 14, 28, 60, 180, 365, 730, 1460, 3650)),
)


class Often(NamedTuple):
    """A frequent value with its approximate count."""

    what: str
    records: int


@dataclass(frozen=True, slots=True)
class Measures:
    """Counts, bytes, keys and sizes of some records: of all, of a partition, of a slot of time.

    Bytes are those of keys, values and headers, before compression. ``keys`` is the approximate number of distinct keys
    (2 % off at most, two times out of three); the quantiles of sizes are 1 % off in rank.
    """

    records: int = 0
    key_bytes: int = 0
    value_bytes: int = 0
    header_bytes: int = 0
    keyless: int = 0  # records without a key
    tombstones: int = 0  # records without a value
    keys: int = 0
    first_ms: int = 0  # the earliest timestamp
    last_ms: int = 0  # the latest
    size_min: int = 0
    size_max: int = 0
    size_quantiles: tuple[int, ...] = (0,) * len(QUANTILES)

    @property
    def total_bytes(self) -> int:
        """Bytes of keys, values and headers."""
        return self.key_bytes + self.value_bytes + self.header_bytes

    @property
    def mean_size(self) -> float:
        """Bytes per record."""
        return self.total_bytes / self.records if self.records else 0.0


@dataclass(frozen=True, slots=True)
class Slots:
    """Equal slots of time. The first begins at a multiple of their length (UTC)."""

    start_ms: int
    step_ms: int
    count: int

    @classmethod
    def over(cls, first_ms: int, last_ms: int, count_max: int) -> Slots:
        """The shortest slots of a round length, at most ``count_max`` for the range."""
        for step_ms in _STEPS_MS:
            start_ms = first_ms // step_ms * step_ms
            count = (last_ms - start_ms) // step_ms + 1
            if count <= count_max:
                return cls(start_ms, step_ms, count)
        step_ms = -(-(last_ms - first_ms + 1) // count_max)
        return cls(first_ms, step_ms, count_max)

    def begin_ms(self, slot: int) -> int:
        """Begin of a slot."""
        return self.start_ms + slot * self.step_ms


class Bin(NamedTuple):
    """Number of records with a size in [low, high)."""

    low: int
    high: int
    records: int


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """One partition: its offsets and its records."""

    partition: int
    first_offset: int
    end_offset: int
    measures: Measures = field(default_factory=Measures)

    @property
    def gaps(self) -> int:
        """Offsets without a committed record: compacted away, aborted, or markers of transactions."""
        return self.end_offset - self.first_offset - self.measures.records


@dataclass(frozen=True, slots=True)
class TopicReport:
    """Content of a topic."""

    topic: str
    cluster_id: str
    made_ms: int  # when, wall clock
    total: Measures
    partitions: tuple[PartitionReport, ...]
    slots: Slots
    over_time: tuple[Measures, ...]  # one for each slot
    earlier: int  # records before the first slot
    later: int  # records behind the last
    sizes: tuple[Bin, ...]
    hot_keys: tuple[Often, ...]
    header_names: tuple[Often, ...]

    @property
    def skew(self) -> float:
        """Records in the fullest partition over the mean of all; 1.0 is perfectly even."""
        counts = [partition.measures.records for partition in self.partitions]
        return max(counts) * len(counts) / sum(counts) if sum(counts) else 1.0

    @property
    def records_per_second(self) -> float:
        """Mean rate over the whole range of timestamps."""
        seconds = (self.total.last_ms - self.total.first_ms) / 1000
        return self.total.records / seconds if seconds else 0.0


def size_edges(size_max: int) -> list[int]:
    """The edges of bins of sizes: 0, 1, 2, 3, 4, 6, 8, 12, 16, 24, ... past ``size_max``."""
    edges = [0, 1, 2, 3]
    while edges[-1] <= size_max:
        edges.append(edges[-2] * 2)
    return edges


def trimmed(bins: list[Bin]) -> tuple[Bin, ...]:
    """Bins without empty ones at the begin and the end."""
    filled = [number for number, each in enumerate(bins) if each.records]
    return tuple(bins[filled[0] : filled[-1] + 1]) if filled else ()
