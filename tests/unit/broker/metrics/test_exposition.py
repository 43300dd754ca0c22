"""Families of any size are the text that the library makes of them in one piece."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from minikafka.broker.metrics.exposition import PORTION, portions
from minikafka.metrics.catalogue import BYTES_IN, LOG_SIZE, LOOP_LAG, Family
from minikafka.metrics.histogram import Histogram


@pytest.mark.parametrize("topics", [0, 1, PORTION, PORTION + 1, 3 * PORTION])
def test_portions_are_one_family(topics: int) -> None:
    parts = list(portions(Family(LOG_SIZE, (((f"t{number}",), number) for number in range(topics)))))
    assert len(parts) == max(1, -(-topics // PORTION))
    text = b"".join(parts).decode()
    assert text.count("#") == 2  # HELP and TYPE, once
    (family,) = text_string_to_metric_families(text)
    assert [(sample.labels, sample.value) for sample in family.samples] == [
        ({"topic": f"t{number}"}, number) for number in range(topics)
    ]
    assert (family.name, family.type, family.documentation) == (LOG_SIZE.name, "gauge", LOG_SIZE.doc)


def test_all_topics_together_have_no_label() -> None:
    (text,) = portions(Family(BYTES_IN, [((), 3), (("orders",), 1)]))
    name = "kafka_server_brokertopicmetrics_bytesin_total"
    assert text.decode().splitlines()[2:] == [f"{name} 3.0", f'{name}{{topic="orders"}} 1.0']


def test_a_histogram_has_buckets_sum_and_count() -> None:
    histogram = Histogram((0.5, 1.0))
    for value in (0.1, 0.7, 9.0):
        histogram.note(value)
    (text,) = portions(Family(LOOP_LAG, [((), histogram)]))
    (family,) = text_string_to_metric_families(text.decode())
    assert [(sample.name.removeprefix(LOOP_LAG.name), sample.labels, sample.value) for sample in family.samples] == [
        ("_bucket", {"le": "0.5"}, 1),
        ("_bucket", {"le": "1"}, 2),
        ("_bucket", {"le": "+Inf"}, 3),
        ("_sum", {}, pytest.approx(9.8)),
        ("_count", {}, 3),
    ]
