"""A stream with invalid options: it raises its error at Spark's first call.

PySpark 4.3 loses an exception raised while a stream reader is made, and reports a variable of its own instead.
"""

from __future__ import annotations

from typing import NoReturn

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow


class RefusedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Raises ``error`` at every call."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def _refuse(self, *asked: object, **named: object) -> NoReturn:
        raise self._error

    getDefaultReadLimit = prepareForTriggerAvailableNow = _refuse  # noqa: N815 - Spark's names
    initialOffset = latestOffset = partitions = read = _refuse  # noqa: N815
