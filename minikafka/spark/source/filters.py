"""Spark's filters on topic, partition, offset and timestamp: less is read.

Spark applies them to the rows all the same, so a bound may be one row too wide. A time cuts off a beginning only: the
log knows its first record at or after the time, and a later record may have an earlier time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from minikafka.model import OffsetAndEpoch
from minikafka.spark.source.ranges import OffsetRange

if TYPE_CHECKING:
    from minikafka.spark.cluster import Cluster

_EQUAL: Final = (EqualTo, EqualNullSafe, In)
_FROM: Final = (*_EQUAL, GreaterThan, GreaterThanOrEqual)
_UP_TO: Final = (*_EQUAL, LessThan, LessThanOrEqual)


def filtered(ranges: Iterable[OffsetRange], filters: Sequence[Filter], cluster: Cluster) -> list[OffsetRange]:
    """What of the ranges may have rows that pass all filters."""
    chosen = [
        _cut(each, _least(filters, "offset"), _most(filters, "offset"))
        for each in ranges
        if _may_pass(filters, "topic", each.tp.topic) and _may_pass(filters, "partition", each.tp.partition)
    ]
    chosen = [each for each in chosen if each.size > 0]
    since = _least(filters, "timestamp")
    since_ms = -1 if since is None else _milliseconds(since)
    if since_ms < 0 or not chosen:  # a negative time asks a log for something else
        return chosen
    begins = cluster.offsets_for_times({each.tp: since_ms for each in chosen})
    late = [_cut(each, begins[each.tp].offset, None) for each in chosen if each.tp in begins]
    return [each for each in late if each.size > 0]


def _may_pass(filters: Sequence[Filter], column: str, value: Any) -> bool:
    least, most = _least(filters, column), _most(filters, column)
    return (
        (least is None or least <= value)
        and (most is None or value <= most)
        and all(value in each.value for each in filters if isinstance(each, In) and each.attribute == (column,))
    )


def _least(filters: Sequence[Filter], column: str) -> Any:
    """The least value that may pass; None: any."""
    return max((min(values) for values in _values(filters, column, _FROM)), default=None)


def _most(filters: Sequence[Filter], column: str) -> Any:
    return min((max(values) for values in _values(filters, column, _UP_TO)), default=None)


def _values(filters: Sequence[Filter], column: str, kinds: tuple[type[Any], ...]) -> list[list[Any]]:
    of_column: list[Any] = [each for each in filters if isinstance(each, kinds) and each.attribute == (column,)]
    values = [each.value if isinstance(each, In) else [each.value] for each in of_column]
    return [known for each in values if (known := [value for value in each if value is not None])]


def _cut(range_: OffsetRange, least: int | None, most: int | None) -> OffsetRange:
    """The offsets from ``least`` to ``most``. A new bound has the epoch of the end, as in :meth:`OffsetRange.split`."""
    start, end = range_.start, range_.end
    if least is not None and least > start.offset:
        start = OffsetAndEpoch(least, end.epoch)
    if most is not None and most + 1 < end.offset:
        end = OffsetAndEpoch(most + 1, end.epoch)
    return replace(range_, start=start, end=end)


def _milliseconds(time: datetime) -> int:
    """Rounded down, as records' times are."""
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000 // 1)
