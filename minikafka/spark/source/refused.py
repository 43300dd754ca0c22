"""A stream that cannot be read, and says why when Spark first asks it for something.

PySpark 4.3 loses an exception that comes while a stream reader is made, and tells of a variable of its own instead.
"""

from __future__ import annotations

from typing import NoReturn

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow


class RefusedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Raises ``error``, whatever it is asked."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def _refuse(self, *asked: object, **named: object) -> NoReturn:
        raise self._error

    getDefaultReadLimit = prepareForTriggerAvailableNow = _refuse  # noqa: N815 - Spark's names
    initialOffset = latestOffset = partitions = read = _refuse  # noqa: N815
