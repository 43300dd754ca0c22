"""Records as rows, the slow way, for both directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from minikafka.model import TopicPartition
from minikafka.records.batch import iter_batches
from minikafka.spark.columns.decode import decode

WHERE = TopicPartition("clicks", 3)


@pytest.fixture(scope="session")
def decode_all() -> Callable[..., list[dict[str, Any]]]:
    """Decode whole batches, one behind the other, and give the rows."""

    def rows(
        batches: Sequence[bytes | bytearray], start: int = -(1 << 62), end: int = 1 << 62, headers: bool = True
    ) -> list[dict[str, Any]]:
        buffer = memoryview(b"".join(batches))
        found = decode(
            buffer,
            list(iter_batches(buffer)),
            tp=WHERE,
            start_offset=start,
            end_offset=end,
            include_headers=headers,
        )
        found.validate(full=True)
        decoded: list[dict[str, Any]] = found.to_pylist()
        return decoded

    return rows
