"""The options of the offline reader."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from minikafka.config.kinds import boolean, choice
from minikafka.spark.options import Option, OptionError, Side
from minikafka.spark.options.kinds import anything, pattern, topics
from minikafka.spark.options.option import parse_options

_INTERNAL: Final = "__"

LOG_OPTIONS: Final = (
    Option(
        "path",
        anything(),
        None,
        Side.BATCH_SOURCE,
        """Where to look, separated by commas: log directories, one partition's directory, or a directory of a node or
        of a cluster, in which log directories are found. Required; `load(path)` sets it.""",
    ),
    Option("topics", topics(), None, Side.BATCH_SOURCE, "Topics to read, separated by commas."),
    Option("subscribe", topics(), None, Side.BATCH_SOURCE, "The same, by the name that the source has for it."),
    Option(
        "subscribePattern",
        pattern(),
        None,
        Side.BATCH_SOURCE,
        "Read every topic whose whole name matches this regular expression.",
    ),
    Option(
        "upTo",
        choice("highWatermark", "end"),
        "highWatermark",
        Side.BATCH_SOURCE,
        """Read what is committed, as far as the directory knows (its replication-offset-checkpoint, which a node
        writes every few seconds), or everything to the end of the log.""",
    ),
    Option(
        "kafka.isolation.level",
        choice("read_uncommitted", "read_committed"),
        "read_uncommitted",
        Side.BATCH_SOURCE,
        """Whether records of open and aborted transactions are read. Without them, the headers of all batches are read
        on the driver first.""",
    ),
    Option(
        "replicas",
        choice("all", "one"),
        "all",
        Side.BATCH_SOURCE,
        "Read every replica found, or of each partition only the one that knows the highest high watermark.",
    ),
    Option("verifyCrc", boolean(), True, Side.BATCH_SOURCE, "Whether checksums are verified."),
    Option(
        "mode",
        choice("failFast", "permissive"),
        "failFast",
        Side.BATCH_SOURCE,
        """What to do about damage: fail, or read around it and tell of it in rows that have only a place and a column
        'damage'.""",
    ),
    Option("includeHeaders", boolean(), False, Side.BATCH_SOURCE, "Add the column 'headers'."),
    Option(
        "includeControlBatches",
        boolean(),
        False,
        Side.BATCH_SOURCE,
        "Whether transaction markers and the like, which no consumer sees, are rows too.",
    ),
)
_ROWS: Final = {option.name.lower(): option for option in LOG_OPTIONS}


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Parsed options of the offline reader. Without topics and pattern it reads all topics that are not internal."""

    paths: tuple[str, ...]
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    up_to_end: bool = False
    read_committed: bool = False
    one_replica: bool = False
    verify_crc: bool = True
    is_permissive: bool = False
    include_headers: bool = False
    include_control: bool = False

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Self:
        """Raises OptionError."""
        values = parse_options(_ROWS, given, Side.BATCH_SOURCE)
        paths = tuple(path for item in (values["path"] or "").split(",") if (path := item.strip()))
        if not paths:
            raise OptionError("option 'path' is missing: name a log directory, or a directory of a node or a cluster")
        chosen = [name for name in ("topics", "subscribe", "subscribePattern") if values[name] is not None]
        if len(chosen) > 1:
            raise OptionError(f"options '{chosen[0]}' and '{chosen[1]}' exclude one another; keep one of them")
        return cls(
            paths=paths,
            topics=values["topics"] or values["subscribe"] or (),
            pattern=values["subscribePattern"],
            up_to_end=values["upTo"] == "end",
            read_committed=values["kafka.isolation.level"] == "read_committed",
            one_replica=values["replicas"] == "one",
            verify_crc=values["verifyCrc"],
            is_permissive=values["mode"] == "permissive",
            include_headers=values["includeHeaders"],
            include_control=values["includeControlBatches"],
        )

    def wants(self, topic: str) -> bool:
        """True for a topic to read."""
        if self.topics:
            return topic in self.topics
        if self.pattern is not None:
            return re.fullmatch(self.pattern, topic) is not None
        return not topic.startswith(_INTERNAL)
