"""The options of the source, and checks between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from minikafka.config.kinds import boolean, integer, long
from minikafka.spark.options.client import ClientSettings, check_ignored, client_settings
from minikafka.spark.options.kinds import (
    anything,
    duration_ms,
    offsets,
    partitions,
    pattern,
    time_ms,
    timestamps,
    topics,
    word,
)
from minikafka.spark.options.option import Option, OptionError, Side, parse_options
from minikafka.spark.options.values import (
    AssignedPartitions,
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    Edge,
    MatchingTopics,
    NamedTopics,
    OffsetSpec,
    TopicChoice,
)

_CHOICES: Final = ("subscribe", "assign", "subscribePattern")

SOURCE_OPTIONS: Final = (
    Option("subscribe", topics(), None, Side.SOURCE, "Topics to read, separated by commas."),
    Option("assign", partitions(), None, Side.SOURCE, 'Partitions to read: {"topic":[0,1]}.'),
    Option(
        "subscribePattern",
        pattern(),
        None,
        Side.SOURCE,
        "Read every topic in whose name this regular expression is found; ^...$ stands for a whole name.",
    ),
    Option(
        "startingOffsets",
        offsets(),
        None,
        Side.SOURCE,
        """Where to begin: earliest, latest, or JSON with an offset for each partition (-2 earliest, -1 latest). A batch
        begins at the earliest offset, a stream at the latest. Partitions that appear later are read from the start.""",
    ),
    Option(
        "startingTimestamp",
        time_ms(),
        None,
        Side.SOURCE,
        "Begin at the first record of this time (ms) or later; goes before the other two.",
    ),
    Option(
        "startingOffsetsByTimestamp",
        timestamps(),
        None,
        Side.SOURCE,
        "The same by partition; goes before startingOffsets.",
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        word("error", "latest"),
        "error",
        Side.SOURCE,
        "What to do with a partition that has no record of that time or later: fail, or begin at its end.",
    ),
    Option(
        "endingOffsets",
        offsets(),
        Edge.LATEST,
        Side.BATCH_SOURCE,
        "Where to end (exclusive): latest, or JSON with an offset for each partition (-1 latest).",
    ),
    Option(
        "endingTimestamp",
        time_ms(),
        None,
        Side.BATCH_SOURCE,
        "End before the first record of this time (ms) or later; goes before the other two.",
    ),
    Option(
        "endingOffsetsByTimestamp",
        timestamps(),
        None,
        Side.BATCH_SOURCE,
        "The same by partition; goes before endingOffsets.",
    ),
    Option(
        "failOnDataLoss",
        boolean(),
        True,
        Side.SOURCE,
        "Fail when records that should be read are gone; otherwise warn and read what is left.",
    ),
    Option("minPartitions", integer(1), None, Side.SOURCE, "At least so many tasks: large ranges are split."),
    Option(
        "maxRecordsPerPartition",
        long(1),
        None,
        Side.SOURCE,
        "At most so many offsets in a task: larger ranges are split.",
    ),
    Option("includeHeaders", boolean(), False, Side.SOURCE, "Add the column 'headers'."),
    Option(
        "maxOffsetsPerTrigger",
        long(1),
        None,
        Side.STREAM_SOURCE,
        "At most so many offsets in a micro-batch, shared in proportion to what each partition holds.",
    ),
    Option(
        "minOffsetsPerTrigger",
        long(1),
        None,
        Side.STREAM_SOURCE,
        "Wait until there are so many offsets, for maxTriggerDelay at most.",
    ),
    Option(
        "maxTriggerDelay",
        duration_ms(),
        15 * 60_000,
        Side.STREAM_SOURCE,
        "How long minOffsetsPerTrigger may hold records back.",
    ),
    Option(
        "groupIdPrefix",
        anything(),
        None,
        Side.SOURCE,
        "Accepted, but has no effect: the source needs no consumer group.",
    ),
    Option(
        "kafkaConsumer.pollTimeoutMs",
        integer(1),
        120_000,
        Side.SOURCE,
        "How long a task waits for its next record before it fails.",
    ),
    *(
        Option(name, None, None, Side.SOURCE, "Accepted, but has no effect here.")
        for name in ("fetchOffset.numRetries", "fetchOffset.retryIntervalMs")
    ),
    Option(
        "path",
        None,
        None,
        Side.BOTH,
        "Refused.",
        "topics are no files, so load() and save() are without a name; say 'subscribe' to read, 'topic' to write",
    ),
)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Parsed options of the source."""

    client: ClientSettings
    topics: TopicChoice
    start: OffsetSpec
    end: OffsetSpec = Edge.LATEST
    latest_when_no_timestamp: bool = False
    fail_on_data_loss: bool = True
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    include_headers: bool = False
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 15 * 60_000
    poll_timeout_ms: int = 120_000

    @classmethod
    def parse(cls, given: Mapping[str, str], *, is_streaming: bool) -> Self:
        """Raises OptionError."""
        from minikafka.spark.options.table import ROWS

        check_ignored(given)
        values = parse_options(ROWS, given, Side.STREAM_SOURCE if is_streaming else Side.BATCH_SOURCE)
        _check_limits(values)
        start, end = _bound(values, "starting"), _bound(values, "ending")
        if not is_streaming:
            _refuse_edge("startingOffsets", start, Edge.LATEST, "a batch that begins there reads nothing")
            _refuse_edge("endingOffsets", end, Edge.EARLIEST, "a batch that ends there reads nothing")
        default_start = Edge.LATEST if is_streaming else Edge.EARLIEST
        return cls(
            client=client_settings(values, Side.SOURCE),
            topics=_topic_choice(values),
            start=default_start if start is None else start,
            end=Edge.LATEST if end is None else end,
            latest_when_no_timestamp=values["startingOffsetsByTimestampStrategy"] == "latest",
            fail_on_data_loss=values["failOnDataLoss"],
            min_partitions=values["minPartitions"],
            max_records_per_partition=values["maxRecordsPerPartition"],
            include_headers=values["includeHeaders"],
            max_offsets_per_trigger=values["maxOffsetsPerTrigger"],
            min_offsets_per_trigger=values["minOffsetsPerTrigger"],
            max_trigger_delay_ms=values["maxTriggerDelay"],
            poll_timeout_ms=values["kafkaConsumer.pollTimeoutMs"],
        )


def check_options(given: Mapping[str, str]) -> None:
    """Raise OptionError for options that are wrong in batch and streaming, before it is known which one follows.

    Without a choice of topics there is no check: the options may be a sink's.
    """
    if not {name.lower() for name in given} & {name.lower() for name in _CHOICES}:
        return
    problems = set()
    for is_streaming in (False, True):
        try:
            SourceOptions.parse(given, is_streaming=is_streaming)
        except OptionError as error:
            problems.add(str(error))
        else:
            return
    if len(problems) == 1:
        raise OptionError(problems.pop())


def includes_headers(given: Mapping[str, str]) -> bool:
    """True when rows have the column ``headers``, before it is known whether they are read or written."""
    from minikafka.spark.options.table import ROWS

    row = ROWS["includeheaders"]
    asked = {name.lower(): value for name, value in given.items()}
    return bool(
        parse_options({"includeheaders": row}, {row.name: asked.get("includeheaders", "false")}, Side.SOURCE)[row.name]
    )


def _topic_choice(values: Mapping[str, Any]) -> TopicChoice:
    chosen = [name for name in _CHOICES if values[name] is not None]
    if len(chosen) != 1:
        names = "'subscribe', 'assign' or 'subscribePattern'"
        what = (
            f"options '{chosen[0]}' and '{chosen[1]}' exclude each other" if chosen else "no option says what to read"
        )
        raise OptionError(f"{what}; set exactly one of {names}")
    value = values[chosen[0]]
    if chosen == ["subscribe"]:
        return NamedTopics(value)
    return AssignedPartitions(value) if chosen == ["assign"] else MatchingTopics(value)


def _bound(values: Mapping[str, Any], which: str) -> OffsetSpec | None:
    if values[f"{which}Timestamp"] is not None:
        return AtTimestamp(values[f"{which}Timestamp"])
    if values[f"{which}OffsetsByTimestamp"] is not None:
        return AtTimestamps(values[f"{which}OffsetsByTimestamp"])
    offsets_ = values[f"{which}Offsets"]
    return AtOffsets(offsets_) if isinstance(offsets_, dict) else offsets_


def _refuse_edge(option: str, bound: OffsetSpec | None, edge: Edge, why: str) -> None:
    if bound is edge:
        raise OptionError(f"option '{option}' is {edge.name.lower()}, but {why}; choose another in a batch query")
    if isinstance(bound, AtOffsets):
        for tp, offset in bound.offsets.items():
            if offset == edge:
                name = edge.name.lower()
                raise OptionError(f"option '{option}' is {offset} ({name}) for {tp}, but {why}; choose another offset")


def _check_limits(values: Mapping[str, Any]) -> None:
    least, most = values["minOffsetsPerTrigger"], values["maxOffsetsPerTrigger"]
    if least is not None and most is not None and least > most:
        raise OptionError(
            f"option 'minOffsetsPerTrigger' is {least}, more than 'maxOffsetsPerTrigger' {most}; lower it or raise that"
        )
