"""A stream that cannot be read, and says why when Spark first asks it for something.

PySpark 4.3 loses an exception that comes while a stream reader is made, and tells of a variable of its own instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow


class RefusedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Raises ``error``, whatever it is asked."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Raises."""
        self._refuse()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Raises."""
        self._refuse()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Raises."""
        self._refuse()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Raises."""
        self._refuse()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Raises."""
        self._refuse()

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """Raises."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise self._error
