"""Where everything in a lake is, and what its files are called (pure).

::

    DIR/topic=orders/date=2026-11-21/00003-00000000000000001000-00000000000000001999.parquet
    DIR/_minikafka/lake.json                        whose records these are: cluster id, topic ids
    DIR/_minikafka/commits/00000000000000000007.json            what commit 7 added and removed
    DIR/_minikafka/commits/00000000000000000064.snapshot.json   all that commits 1 to 64 come to
    DIR/_minikafka/staging/TOKEN/                   files under way; of no meaning unless a commit names them
    DIR/_minikafka/lock                             held by the archive that writes

A data file is named after its partition, its first and its last offset. Its date is the UTC day of its records'
timestamps. Readers of directories leave out what begins with an underscore. Those that are given a pattern must be
given ``DIR/*/*/*.parquet``: ``DIR/**/*.parquet`` looks into the staging directory as well.
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
        """Below the lake: ``topic=orders/date=2026-11-21``."""
        return f"topic={self.topic}/date={self.date}"

    @property
    def name(self) -> str:
        """Without the directory."""
        return f"{self.partition:05d}-{self.first_offset:020d}-{self.last_offset:020d}.parquet"

    @property
    def path(self) -> str:
        """Below the lake."""
        return f"{self.directory}/{self.name}"


def date_of(days: int) -> str:
    """The date so many days after 1970-01-01, as ISO 8601 has it. Timestamps may be anything: what lies before the year
    1 or after 9999 counts as its first or last day."""
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
