"""Errors of malformed records, before offset and partition are added."""

from __future__ import annotations

from typing import Any

import numpy as np


class BrokenRecordError(Exception):
    """Record number ``record`` is malformed."""

    def __init__(self, record: int, what: str) -> None:
        super().__init__(record, what)
        self.record = record
        self.what = what


class BrokenBatchError(Exception):
    """Batch number ``batch`` contradicts its header."""

    def __init__(self, batch: int, what: str) -> None:
        super().__init__(batch, what)
        self.batch = batch
        self.what = what


def check(is_wrong: Any, what: str, records: Any | None = None) -> None:
    """Raise BrokenRecordError if any flag is set. ``records`` are the records' numbers; default: 0, 1, 2, ..."""
    if is_wrong.any():
        index = int(np.argmax(is_wrong))
        raise BrokenRecordError(index if records is None else int(records[index]), what)
