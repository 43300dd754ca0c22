"""Names of the files of a segment, and of producer snapshots, as Kafka spells them: 20 digits and a suffix."""

from __future__ import annotations

import re

LOG_SUFFIX = ".log"
OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"  # only where a transaction was aborted
INDEX_SUFFIXES = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
SUFFIXES = (*INDEX_SUFFIXES, LOG_SUFFIX)  # renamed in this order: the log decides what exists
SNAPSHOT_SUFFIX = ".snapshot"  # of producers, named by an offset as segments are
DELETED_SUFFIX = ".deleted"

MAX_OFFSET = 2**63 - 1
_OFFSET = re.compile("[0-9]{20}")


def file_name(offset: int) -> str:
    """How Kafka spells an offset in a file name: 20 digits."""
    return f"{offset:020d}"


def offset_in(name: str, suffix: str) -> int | None:
    """The offset that a file of that suffix is named by; None for a name that no offset has."""
    stem = name.removesuffix(suffix)
    offset = int(stem) if stem != name and _OFFSET.fullmatch(stem) else None
    return offset if offset is not None and offset <= MAX_OFFSET else None
