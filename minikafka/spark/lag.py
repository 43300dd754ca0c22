"""How far a stream is behind its topics. Spark's connector says so in metrics, which sources in Python cannot fill."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from minikafka.model import TopicPartition
from minikafka.spark.source.offsets import UNRESOLVED, StreamOffset


def lag(progress: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """Offsets between the end of a batch and the ends of the logs, by partition: of ``query.lastProgress``.

    The ends are those that the source saw last. Without a source of topics it is empty.
    """
    behind: dict[TopicPartition, int] = {}
    for source in progress["sources"]:
        read, latest = (_ends(source[name]) for name in ("endOffset", "latestOffset"))
        behind |= {tp: max(end - read[tp], 0) for tp, end in latest.items() if tp in read}
    return behind


class LagListener(StreamingQueryListener):
    """Tells after each batch how far its query is behind: ``spark.streams.addListener(LagListener())``."""

    def __init__(self, tell: Callable[[str], None] = lambda line: print(line, file=sys.stderr)) -> None:
        self._tell = tell

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing to tell."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Tell the sum, and the partition that is most behind."""
        progress = event.progress
        if behind := lag({"sources": progress.sources}):
            worst = max(behind, key=lambda tp: behind[tp])
            most = f", {worst} {behind[worst]:,}" if behind[worst] else ""
            name = progress.name or progress.id
            self._tell(f"{name}: batch {progress.batchId}, {sum(behind.values()):,} offsets behind{most}")

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing to tell."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Nothing to tell."""


def _ends(offset: Any) -> dict[TopicPartition, int]:
    """Of an offset as Spark reports it: JSON, or none, or another source's."""
    try:
        fields = json.loads(offset) if isinstance(offset, str) else offset
        return (
            {}
            if fields in (None, UNRESOLVED)
            else {tp: end.offset for tp, end in StreamOffset.from_json(fields).ends.items()}
        )
    except (ValueError, AttributeError):
        return {}
