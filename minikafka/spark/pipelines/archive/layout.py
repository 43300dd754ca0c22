"""Paths and file names of a lake (pure).

::

    DIR/topic=orders/date=2026-11-21/00003-00000000000000001000-00000000000000001999.parquet
    DIR/_minikafka/lake.json                        origin of the records: cluster id, topic ids
    DIR/_minikafka/commits/00000000000000000007.json            changes of commit 7
    DIR/_minikafka/commits/00000000000000000064.snapshot.json   content after commits 1 to 64
    DIR/_minikafka/staging/TOKEN/                   unfinished files; ignored unless a commit names them
    DIR/_minikafka/lock                             lock of the writing archive

A data file is named after its partition, its first and its last offset. Its date is the UTC day of its records'
timestamps. Readers of directories ignore names with a leading underscore. As a pattern use ``DIR/*/*/*.parquet``,
because
``DIR/**/*.parquet`` includes the staging directory.
"""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import Final, NamedTuple

OF_LAKE: Final = "_minikafka"
IDENTITY: Final = f"{OF_LAKE}/lake.json"
COMMITS: Final = f"{OF_LAKE}/commits"
STAGING: Final = f"{OF_LAKE}/staging"
LOCK: Final = f"{OF_LAKE}/lock"

_EPOCH: Final = date(1970, 1, 1)
DAYS_MIN: Final = (date.min - _EPOCH).days
DAYS_MAX: Final = (date.max - _EPOCH).days
_COMMIT_NAME: Final = re.compile(r"(\d{20})(\.snapshot)?\.json")


class DataFile(NamedTuple):
    """One file of records, of one partition and one day, in the order of their offsets."""

    topic: str
    date: str
    partition: int
    first_offset: int
    last_offset: int
    rows: int
    size_bytes: int

    @property
    def directory(self) -> str:
        """Path below the lake: ``topic=orders/date=2026-11-21``."""
        return f"topic={self.topic}/date={self.date}"

    @property
    def name(self) -> str:
        """File name."""
        return f"{self.partition:05d}-{self.first_offset:020d}-{self.last_offset:020d}.parquet"

    @property
    def path(self) -> str:
        """Below the lake."""
        return f"{self.directory}/{self.name}"


def date_of(days: int) -> str:
    """The date so many days after 1970-01-01, in ISO 8601. Timestamps have any value: days before the year 1 or after
    9999 count as the first or last one."""
    return (_EPOCH + timedelta(days=min(max(days, DAYS_MIN), DAYS_MAX))).isoformat()


def commit_name(version: int) -> str:
    """The file of a commit."""
    return f"{version:020d}.json"


def snapshot_name(version: int) -> str:
    """The file of the snapshot up to a commit."""
    return f"{version:020d}.snapshot.json"


def parse_commit_name(name: str) -> tuple[int, bool] | None:
    """``(version, is_snapshot)``, or None for a file of another kind."""
    found = _COMMIT_NAME.fullmatch(name)
    return (int(found.group(1)), found.group(2) is not None) if found else None
