"""The catalogue is complete, and its names are ones that Prometheus takes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from minikafka.metrics import catalogue
from minikafka.metrics.catalogue import CATALOGUE, Metric


def declared() -> Iterator[Metric]:
    for value in vars(catalogue).values():
        if isinstance(value, Metric):
            yield value
        elif value is catalogue.GROUPS_BY_STATE:
            yield from value.values()


def test_every_metric_is_in_one_section() -> None:
    assert Counter(declared()) == Counter(CATALOGUE)


def test_names_are_valid_and_unique() -> None:
    names = [metric.name for metric in CATALOGUE]
    assert len(set(names)) == len(names)
    for metric in CATALOGUE:
        assert re.fullmatch(r"(kafka|minikafka)_[a-z_]+", metric.name)
        assert not metric.name.endswith("_total")
        assert all(re.fullmatch("[a-zA-Z]+", label) for label in metric.labels)
        assert metric.doc.endswith(".")
