from __future__ import annotations

import pytest

from minikafka.errors import KafkaError
from minikafka.spark.columns.encode import EncodedBatch
from minikafka.spark.sink.sizes import Sizes


@pytest.mark.parametrize(
    ("topic_max", "request_max", "told"),
    [
        (99, 50, "takes 100 bytes, more than the topic's max.message.bytes, 99; make"),
        (None, 99, "takes 100 bytes, more than the option 'kafka.max.request.size', 99; make"),
    ],
)
def test_what_is_in_a_rows_way_is_named(topic_max: int | None, request_max: int, told: str) -> None:
    with pytest.raises(KafkaError, match=f"a row for orders {told}"):
        Sizes("orders", 10, topic_max, request_max).check(EncodedBatch(bytearray(100), 1))
    Sizes("orders", 10, 100, 100).check(EncodedBatch(bytearray(100), 1))
