"""Deltas of metadata at once, where a node makes them in steps."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from minikafka.metadata.delta import ImageBuilder, MetadataDelta, differences
from minikafka.metadata.image import MetadataImage
from minikafka.metadata.records import Record
from minikafka.model import OffsetAndEpoch


def apply_records(
    image: MetadataImage, records: Iterable[Record], last: OffsetAndEpoch
) -> tuple[MetadataImage, MetadataDelta]:
    """The image after ``records``, the last of which is at ``last``; and what changed."""
    builder = ImageBuilder(image)
    for record in records:
        builder.replay(record)
    delta = _last(builder.finish(last))
    return delta.after, delta


def difference(before: MetadataImage, after: MetadataImage) -> MetadataDelta:
    """What differs between two images."""
    return _last(differences(before, after))


def is_empty(delta: MetadataDelta) -> bool:
    """True when there is nothing to act on."""
    return not (delta.brokers or delta.created_topics or delta.deleted_topics or delta.partitions or delta.configs)


def _last(steps: Generator[None, None, MetadataDelta]) -> MetadataDelta:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            delta: MetadataDelta = end.value
            return delta
