"""The options of the sink."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from minikafka.config.kinds import boolean, choice, integer
from minikafka.model import Compression
from minikafka.spark.options.client import ClientSettings, check_ignored, client_settings
from minikafka.spark.options.kinds import topic
from minikafka.spark.options.option import Option, Side, parse_options

SINK_OPTIONS: Final = (
    Option("topic", topic(), None, Side.SINK, "Where all rows go, whatever a column 'topic' says."),
    Option(
        "deduplicationHeaders",
        boolean(),
        False,
        Side.SINK,
        "Mark records with query, batch, task and sequence, so that a reader can drop what was written twice.",
    ),
    Option(
        "kafka.compression.type",
        choice(*(codec.name.lower() for codec in Compression)),
        "none",
        Side.SINK,
        "How batches are compressed.",
    ),
    Option("kafka.batch.size", integer(1024), 256 * 1024, Side.SINK, "Bytes of one batch of records."),
    Option("checkpointLocation", None, None, Side.SINK, "Spark's own: where a streaming query keeps where it is."),
    Option("queryName", None, None, Side.SINK, "Spark's own: the name of a streaming query."),
)


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Parsed options of the sink."""

    client: ClientSettings
    topic: str | None = None
    deduplication_headers: bool = False
    compression: Compression = Compression.NONE
    batch_bytes: int = 256 * 1024
    keeps_timestamps: bool = False  # of a replay: no option of Spark's connector
    partition_advice: str = "see the column 'partition'"

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Self:
        """Raises OptionError."""
        from minikafka.spark.options.table import ROWS

        check_ignored(given)
        values = parse_options(ROWS, given, Side.SINK)
        return cls(
            client=client_settings(values, Side.SINK),
            topic=values["topic"],
            deduplication_headers=values["deduplicationHeaders"],
            compression=Compression[values["kafka.compression.type"].upper()],
            batch_bytes=values["kafka.batch.size"],
        )
