"""What is wrong with bytes that were to be records, until it is said with the offset and partition."""

from __future__ import annotations

from typing import Any

import numpy as np


class BrokenRecordError(Exception):
    """The ``record``-th of the records at hand is not one."""

    def __init__(self, record: int, what: str) -> None:
        super().__init__(record, what)
        self.record = record
        self.what = what


class BrokenBatchError(Exception):
    """The ``batch``-th of the batches at hand does not hold what its header says."""

    def __init__(self, batch: int, what: str) -> None:
        super().__init__(batch, what)
        self.batch = batch
        self.what = what


def check(is_wrong: Any, what: str, records: Any | None = None) -> None:
    """Raise BrokenRecordError if any flag is set; ``records`` are their records, when they are not all in order."""
    if is_wrong.any():
        index = int(np.argmax(is_wrong))
        raise BrokenRecordError(index if records is None else int(records[index]), what)
