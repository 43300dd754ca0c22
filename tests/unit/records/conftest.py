from __future__ import annotations

import pytest

from minikafka.records.build import build_batch
from minikafka.records.record import Record


@pytest.fixture
def three_records() -> list[Record]:
    return [
        Record(0, 1_000, b"k0", b"v0"),
        Record(1, 1_005, None, b"v1", (("h", b"1"), ("n", None))),
        Record(2, 1_003, b"k2", None),
    ]


@pytest.fixture
def batch(three_records: list[Record]) -> bytearray:
    return build_batch(three_records)
