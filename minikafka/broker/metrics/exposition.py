"""Families as text in Prometheus' exposition format, by the library prometheus_client, in portions.

The library is optional (``pip install 'minikafka[metrics]'``): whoever imports this module must expect ImportError.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client import Metric as LibraryMetric
from prometheus_client.registry import Collector

from minikafka.metrics.catalogue import Family
from minikafka.metrics.histogram import Histogram

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
PORTION: Final = 250
"""Samples of a portion: about 1.5 ms."""


def portions(family: Family) -> Iterator[bytes]:
    """The text of a family; each item is one portion of work."""
    metric, samples = family.metric, _samples(family)
    is_first = True
    while (portion := list(islice(samples, PORTION))) or is_first:
        shown = LibraryMetric(metric.name, metric.doc, metric.kind)
        for sample in portion:
            shown.add_sample(*sample)
        yield _text((shown,)) if is_first else _without_comments(_text((shown,)))
        is_first = False


def process_text() -> bytes:
    """The library's own metrics of the process: CPU time, memory, open files."""
    return _text(_process_collector().collect())


@cache
def _process_collector() -> ProcessCollector:
    return ProcessCollector(registry=CollectorRegistry())


class _Sample(NamedTuple):
    name: str
    labels: dict[str, str]
    value: float


def _samples(family: Family) -> Iterator[_Sample]:
    metric = family.metric
    for values, value in family.values:
        labels = dict(zip(metric.labels, values, strict=False))
        if isinstance(value, Histogram):
            for bound, count in value.cumulative():
                yield _Sample(f"{metric.name}_bucket", {**labels, "le": bound}, count)
            yield _Sample(f"{metric.name}_sum", labels, value.total)
            yield _Sample(f"{metric.name}_count", labels, value.count)
        else:
            yield _Sample(metric.shown_name, labels, value)


class _Collected(Collector):
    """What the library takes for a registry."""

    def __init__(self, metrics: Iterable[LibraryMetric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[LibraryMetric]:
        return self._metrics


def _text(metrics: Iterable[LibraryMetric]) -> bytes:
    return generate_latest(_Collected(metrics))


def _without_comments(text: bytes) -> bytes:
    """A family has its comments once."""
    return b"".join(line for line in text.splitlines(keepends=True) if not line.startswith(b"#"))
