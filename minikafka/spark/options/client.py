"""Rows ``kafka.*``: settings of Kafka's own clients, mapped to ours where they have a meaning."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from minikafka.client import Security
from minikafka.client.properties import WITHOUT_EFFECT
from minikafka.client.security import PLAIN
from minikafka.config.kinds import boolean, choice, integer, text
from minikafka.model import Isolation
from minikafka.spark.options.kinds import anything, checked
from minikafka.spark.options.option import Option, OptionError, Side
from minikafka.spark.options.security import SECURITY_OPTIONS, check_known, query_security

_log = logging.getLogger(__name__)

BOOTSTRAP_SERVERS: Final = "kafka.bootstrap.servers"


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Connection settings of a process. They are picklable; equal settings share connections.

    Names and meanings are those of the parameters of :class:`~minikafka.client.Consumer` and
    :class:`~minikafka.client.Producer`. Some defaults differ, in favour of bulk transfers.
    """

    bootstrap_servers: str
    client_id: str = "minikafka-spark"
    client_rack: str = ""
    isolation_level: Isolation = Isolation.READ_UNCOMMITTED
    fetch_max_wait_ms: int = 500
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 50 * 1024 * 1024
    max_partition_fetch_bytes: int = 4 * 1024 * 1024
    check_crcs: bool = True
    request_timeout_ms: int = 30_000
    max_block_ms: int = 60_000
    buffer_bytes: int = 64 * 1024 * 1024
    max_request_bytes: int = 8 * 1024 * 1024
    delivery_timeout_ms: int = 120_000
    linger_ms: int = 0
    security: Security = PLAIN


# The parameter of ClientSettings for each row. Of several rows for one parameter the first given one wins.
PARAMETERS: Final[dict[str, str]] = {
    BOOTSTRAP_SERVERS: "bootstrap_servers",
    "kafka.client.id": "client_id",
    "kafka.client.rack": "client_rack",
    "kafka.isolation.level": "isolation_level",
    "kafka.fetch.max.wait.ms": "fetch_max_wait_ms",
    "kafka.fetch.min.bytes": "fetch_min_bytes",
    "kafka.fetch.max.bytes": "fetch_max_bytes",
    "kafka.max.partition.fetch.bytes": "max_partition_fetch_bytes",
    "kafka.check.crcs": "check_crcs",
    "kafka.request.timeout.ms": "request_timeout_ms",
    "kafka.buffer.memory": "buffer_bytes",
    "kafka.max.request.size": "max_request_bytes",
    "kafka.delivery.timeout.ms": "delivery_timeout_ms",
    "kafka.linger.ms": "linger_ms",
}
_BLOCKING: Final = {Side.SOURCE: "kafka.default.api.timeout.ms", Side.SINK: "kafka.max.block.ms"}

_NO_SERIALIZERS: Final = "keys and values are bytes here; convert the columns 'key' and 'value' in the query"
_DEFAULTS: Final = ClientSettings(bootstrap_servers="")


def _rows() -> tuple[Option, ...]:
    default = _DEFAULTS
    return (
        Option(
            BOOTSTRAP_SERVERS,
            checked(text(allowed="host:port,..."), _bootstrap_problem),
            None,
            Side.BOTH,
            "Brokers to connect to first; they name the others. Required.",
        ),
        Option("kafka.client.id", text(), default.client_id, Side.BOTH, "How brokers name this client in their logs."),
        Option(
            "kafka.client.rack",
            anything(),
            "",
            Side.SOURCE,
            "Read from replicas in this rack, if the cluster is set up for it.",
        ),
        Option(
            "kafka.isolation.level",
            choice("read_uncommitted", "read_committed"),
            "read_uncommitted",
            Side.SOURCE,
            "Whether records of open and aborted transactions are read.",
        ),
        Option(
            "kafka.fetch.max.wait.ms",
            integer(1),
            default.fetch_max_wait_ms,
            Side.SOURCE,
            "How long a leader waits for kafka.fetch.min.bytes; then it answers with fewer.",
        ),
        Option(
            "kafka.fetch.min.bytes",
            integer(1),
            default.fetch_min_bytes,
            Side.SOURCE,
            "Bytes that a leader waits for before it answers.",
        ),
        Option(
            "kafka.fetch.max.bytes", integer(1024), default.fetch_max_bytes, Side.SOURCE, "Most bytes in one answer."
        ),
        Option(
            "kafka.max.partition.fetch.bytes",
            integer(1024),
            default.max_partition_fetch_bytes,
            Side.SOURCE,
            "Most bytes of one partition in one answer.",
        ),
        Option(
            "kafka.check.crcs",
            boolean(),
            default.check_crcs,
            Side.SOURCE,
            "Whether checksums are verified when records arrive.",
        ),
        Option(
            "kafka.request.timeout.ms",
            integer(1),
            default.request_timeout_ms,
            Side.BOTH,
            "How long a broker may take to answer.",
        ),
        Option(
            "kafka.default.api.timeout.ms",
            integer(1),
            default.max_block_ms,
            Side.SOURCE,
            "How long requests for metadata and offsets are repeated before a query fails.",
        ),
        Option(
            "kafka.max.block.ms",
            integer(1),
            default.max_block_ms,
            Side.SINK,
            "How long a task waits for room in a full buffer, or for a missing topic.",
        ),
        Option(
            "kafka.buffer.memory",
            integer(1024 * 1024),
            default.buffer_bytes,
            Side.SINK,
            "Most bytes of records that a task holds until brokers have stored them.",
        ),
        Option(
            "kafka.max.request.size", integer(1024), default.max_request_bytes, Side.SINK, "Most bytes in one request."
        ),
        Option(
            "kafka.delivery.timeout.ms",
            integer(1),
            default.delivery_timeout_ms,
            Side.SINK,
            "How long a task tries to store a record before it fails.",
        ),
        Option(
            "kafka.linger.ms",
            integer(),
            default.linger_ms,
            Side.SINK,
            "How long a batch waits for more records before it is sent.",
        ),
        *SECURITY_OPTIONS,
        *_refused(),
        *(
            Option(f"kafka.{name}", None, None, Side.BOTH, "Accepted, but has no effect here.")
            for name in (*_WITHOUT_EFFECT, *sorted(WITHOUT_EFFECT))
        ),
    )


_WITHOUT_EFFECT: Final = (
    *("acks", "enable.idempotence", "retries", "max.in.flight.requests.per.connection", "retry.backoff.ms"),
    *("retry.backoff.max.ms", "reconnect.backoff.ms", "reconnect.backoff.max.ms", "connections.max.idle.ms"),
    *("metadata.max.age.ms", "metadata.max.idle.ms", "metadata.recovery.strategy", "client.dns.lookup"),
    *("send.buffer.bytes", "receive.buffer.bytes", "socket.connection.setup.timeout.ms"),
    *("socket.connection.setup.timeout.max.ms", "max.poll.records", "max.poll.interval.ms", "session.timeout.ms"),
    *("heartbeat.interval.ms", "group.id", "group.instance.id", "group.protocol", "partition.assignment.strategy"),
    *("auto.commit.interval.ms", "allow.auto.create.topics", "exclude.internal.topics", "metric.reporters"),
    *("metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms", "enable.metrics.push"),
    *("partitioner.ignore.keys", "partitioner.adaptive.partitioning.enable", "auto.include.jmx.reporter"),
)


def _refused() -> tuple[Option, ...]:
    def row(name: str, side: Side, refusal: str) -> Option:
        return Option(f"kafka.{name}", None, None, side, "Refused.", refusal)

    return (
        row(
            "auto.offset.reset",
            Side.SOURCE,
            "where to begin is said by 'startingOffsets', and Spark keeps where it is in its checkpoint",
        ),
        row("enable.auto.commit", Side.SOURCE, "offsets are kept in Spark's checkpoint and not committed to a group"),
        row("interceptor.classes", Side.BOTH, "interceptors may change what Spark relies on; change rows in the query"),
        *(row(name, Side.SOURCE, _NO_SERIALIZERS) for name in ("key.deserializer", "value.deserializer")),
        *(row(name, Side.SINK, _NO_SERIALIZERS) for name in ("key.serializer", "value.serializer")),
        row("partitioner.class", Side.SINK, "Java classes cannot be run; say it by a column 'partition'"),
        row("transactional.id", Side.SINK, "the sink writes at least once; use 'deduplicationHeaders'"),
    )


def _bootstrap_problem(value: str) -> str:
    addresses = [address.strip() for address in value.split(",")]
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            return f"host:port,...; {address!r} is not"
    return ""


CLIENT_OPTIONS: Final = _rows()


def check_ignored(given: Mapping[str, str]) -> None:
    """Raise OptionError for what cannot be had of security: its user relies on it. Warn of others without effect."""
    for name, value in given.items():
        lowered = name.lower()
        if lowered == "kafka.acks" and value.lower() not in ("all", "-1"):
            _log.warning("option 'kafka.acks' is %s, but every row waits for all in-sync replicas", value)
        if lowered == "kafka.group.id":
            _log.warning("option 'kafka.group.id' has no effect: no offset is committed to a group")
        check_known(name)


def client_settings(values: Mapping[str, Any], side: Side) -> ClientSettings:
    """The client's settings from parsed values. Raises OptionError without bootstrap servers."""
    if values[BOOTSTRAP_SERVERS] is None:
        raise OptionError(f"option '{BOOTSTRAP_SERVERS}' is missing; set it to host:port of one or more brokers")
    parameters = {parameter: values[name] for name, parameter in PARAMETERS.items()}
    parameters["isolation_level"] = Isolation[values["kafka.isolation.level"].upper()]
    parameters["max_block_ms"] = values[_BLOCKING[side]]
    parameters["security"] = query_security(values)
    return ClientSettings(**parameters)
