"""Every metric of a node: its name, type, labels and meaning.

Names and labels are those that Prometheus' jmx_exporter gives to Apache Kafka's metrics with the rules of its examples,
so that dashboards and alerts for Kafka find them. What Kafka does not have begins with ``minikafka_``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from minikafka.metrics.histogram import Histogram

Kind = Literal["counter", "gauge", "histogram"]

SUFFIX: Final[Mapping[Kind, str]] = {"counter": "_total", "gauge": "", "histogram": ""}


class Metric(NamedTuple):
    """A row of the catalogue."""

    name: str
    """Without ``_total``."""
    kind: Kind
    doc: str
    labels: tuple[str, ...] = ()

    @property
    def shown_name(self) -> str:
        """As a scrape shows it; of a histogram what its ``_bucket``, ``_sum`` and ``_count`` begin with."""
        return self.name + SUFFIX[self.kind]


class Family(NamedTuple):
    """A metric with its present values, each under the values of its labels.

    Without values of labels: of all together, which Kafka shows beside the parts.
    """

    metric: Metric
    values: Iterable[tuple[Sequence[str], float | Histogram]]


_TRAFFIC: Final = "kafka_server_brokertopicmetrics_"
_REQUESTS: Final = "kafka_network_requestmetrics_"
_REPLICAS: Final = "kafka_server_replicamanager_"
_CONTROLLER: Final = "kafka_controller_kafkacontroller_"
_RAFT: Final = "kafka_server_raft_metrics_"
_PURGATORY: Final = "kafka_server_delayedoperationpurgatory_"
_GROUPS: Final = "kafka_coordinator_group_groupmetadatamanager_"
_MARKERS: Final = "kafka_coordinator_transaction_transactionmarkerchannelmanager_"
_TRANSACTIONS: Final = "kafka_server_transaction_coordinator_metrics_"
_SOCKETS: Final = "kafka_server_socket_server_metrics_"

_BY_TOPIC: Final = ("topic",)
_BY_REQUEST: Final = ("request",)
_BY_LISTENER: Final = ("listener",)

MESSAGES_IN: Final = Metric(_TRAFFIC + "messagesin", "counter", "Records appended by producers.", _BY_TOPIC)
BYTES_IN: Final = Metric(_TRAFFIC + "bytesin", "counter", "Bytes of record batches appended by producers.", _BY_TOPIC)
BYTES_OUT: Final = Metric(_TRAFFIC + "bytesout", "counter", "Bytes of record batches sent to consumers.", _BY_TOPIC)
REPLICATION_BYTES_IN: Final = Metric(_TRAFFIC + "replicationbytesin", "counter", "Bytes fetched from leaders.")
REPLICATION_BYTES_OUT: Final = Metric(_TRAFFIC + "replicationbytesout", "counter", "Bytes sent to followers.")
PRODUCE_REQUESTS: Final = Metric(_TRAFFIC + "totalproducerequests", "counter", "Produce requests.")
FETCH_REQUESTS: Final = Metric(_TRAFFIC + "totalfetchrequests", "counter", "Fetch requests of consumers.")
FAILED_PRODUCES: Final = Metric(
    _TRAFFIC + "failedproducerequests", "counter", "Partitions of Produce requests that were answered with an error."
)
FAILED_FETCHES: Final = Metric(
    _TRAFFIC + "failedfetchrequests",
    "counter",
    "Partitions of Fetch requests, of consumers and followers, that were answered with an error.",
)

REQUESTS: Final = Metric(_REQUESTS + "requests", "counter", "Answered requests by API.", _BY_REQUEST)
ERRORS: Final = Metric(
    _REQUESTS + "errors",
    "counter",
    "Errors in answers by API and code. Kafka counts success too, as error NONE.",
    ("request", "error"),
)
REQUEST_TIMES: Final = Metric(
    _REQUESTS + "totaltimems",
    "histogram",
    "Time of a request in milliseconds, from its arrival to its answer, waits for replicas or data included. "
    "A summary in Kafka.",
    _BY_REQUEST,
)

PARTITIONS: Final = Metric(_REPLICAS + "partitioncount", "gauge", "Replicas on this node.")
LEADERS: Final = Metric(_REPLICAS + "leadercount", "gauge", "Partitions that this node leads.")
UNDER_REPLICATED: Final = Metric(
    _REPLICAS + "underreplicatedpartitions", "gauge", "Led partitions whose ISR lacks a replica."
)
UNDER_MIN_ISR: Final = Metric(
    _REPLICAS + "underminisrpartitioncount", "gauge", "Led partitions whose ISR is below min.insync.replicas."
)
AT_MIN_ISR: Final = Metric(
    _REPLICAS + "atminisrpartitioncount", "gauge", "Led partitions whose ISR is exactly min.insync.replicas."
)
REASSIGNING: Final = Metric(_REPLICAS + "reassigningpartitions", "gauge", "Led partitions under reassignment.")
OFFLINE_REPLICAS: Final = Metric(
    _REPLICAS + "offlinereplicacount", "gauge", "Replicas of this node in log directories that failed."
)
ISR_SHRINKS: Final = Metric(
    _REPLICAS + "isrshrinks",
    "counter",
    "Replicas' removals from the ISR of partitions that this node leads, whoever decided them. Kafka counts those "
    "that the leader proposed.",
)
ISR_EXPANDS: Final = Metric(
    _REPLICAS + "isrexpands", "counter", "Replicas' returns to the ISR of partitions that this node leads."
)
MAX_LAG: Final = Metric(
    "kafka_server_replicafetchermanager_maxlag",
    "gauge",
    "Most committed records that a follower on this node lacks, in one partition.",
    ("clientId",),
)

LOG_SIZE: Final = Metric(
    "kafka_log_log_size", "gauge", "Bytes of the topic's replicas on this node. By partition in Kafka.", _BY_TOPIC
)
OFFLINE_DIRECTORIES: Final = Metric(
    "kafka_log_logmanager_offlinelogdirectorycount", "gauge", "Log directories that failed."
)

PURGATORY: Final = Metric(
    _PURGATORY + "purgatorysize",
    "gauge",
    "Partitions that requests wait for: Produce for replicas, Fetch for records.",
    ("delayedOperation",),
)
DELAYED: Final = Metric(
    _PURGATORY + "numdelayedoperations", "gauge", "Requests that wait in the purgatory.", ("delayedOperation",)
)

ACTIVE_CONTROLLER: Final = Metric(
    _CONTROLLER + "activecontrollercount", "gauge", "1 on the active controller, else 0; the cluster's sum is 1."
)
_ON_CONTROLLER: Final = "On the active controller, else 0: "
GLOBAL_TOPICS: Final = Metric(_CONTROLLER + "globaltopiccount", "gauge", _ON_CONTROLLER + "topics.")
GLOBAL_PARTITIONS: Final = Metric(_CONTROLLER + "globalpartitioncount", "gauge", _ON_CONTROLLER + "partitions.")
OFFLINE_PARTITIONS: Final = Metric(
    _CONTROLLER + "offlinepartitionscount", "gauge", _ON_CONTROLLER + "partitions without a leader."
)
IMBALANCE: Final = Metric(
    _CONTROLLER + "preferredreplicaimbalancecount",
    "gauge",
    _ON_CONTROLLER + "partitions led by another than their preferred replica.",
)
ACTIVE_BROKERS: Final = Metric(_CONTROLLER + "activebrokercount", "gauge", _ON_CONTROLLER + "brokers, not fenced.")
FENCED_BROKERS: Final = Metric(_CONTROLLER + "fencedbrokercount", "gauge", _ON_CONTROLLER + "fenced brokers.")

RAFT_LEADER: Final = Metric(_RAFT + "current_leader", "gauge", "Node that leads the metadata quorum; -1: unknown.")
RAFT_EPOCH: Final = Metric(_RAFT + "current_epoch", "gauge", "Epoch of the metadata quorum.")
RAFT_HIGH_WATERMARK: Final = Metric(
    _RAFT + "high_watermark", "gauge", "First offset of the metadata log that is not known to be committed."
)
RAFT_END: Final = Metric(_RAFT + "log_end_offset", "gauge", "End of this node's metadata log.")
RAFT_STATE: Final = Metric(
    _RAFT + "current_state_info", "gauge", "1 for this node's role in the metadata quorum.", ("state",)
)
METADATA_APPLIED: Final = Metric(
    "kafka_server_broker_metadata_metrics_last_applied_record_offset",
    "gauge",
    "Last record of the metadata log that this node has applied.",
)
BROKER_STATE: Final = Metric(
    "kafka_server_kafkaserver_brokerstate",
    "gauge",
    "1: not registered yet. 2: fenced. 3: serving. 6: leaving, in controlled shutdown.",
)

GROUPS: Final = Metric(_GROUPS + "numgroups", "gauge", "Consumer groups that this node coordinates.")
GROUPS_BY_STATE: Final = {
    state: Metric(f"{_GROUPS}numgroups{state.lower()}", "gauge", f"Of these, in the state {state}.")
    for state in ("PreparingRebalance", "CompletingRebalance", "Stable", "Empty")
}

TRANSACTIONAL_IDS: Final = Metric(
    "minikafka_transactional_ids", "gauge", "Transactional ids that this node coordinates, by state.", ("state",)
)
LATE_TRANSACTIONS: Final = Metric(
    _REPLICAS + "partitionswithlatetransactionscount",
    "gauge",
    "Led partitions whose oldest open transaction had no record for transaction.max.timeout.ms + 5 min: it hangs.",
)
PRODUCER_IDS: Final = Metric(
    _REPLICAS + "produceridcount", "gauge", "Producers that the replicas on this node know, each once for each replica."
)
VERIFICATION_FAILURES: Final = Metric(
    "kafka_server_addpartitionstotxnmanager_verificationfailurerate",
    "counter",
    "Partitions for which a coordinator did not admit a transaction to what this node leads, or was not reached.",
)
MARKERS: Final = Metric(
    "minikafka_transaction_markers",
    "counter",
    "Markers of this node's coordinators that partitions have, one for each transaction and partition.",
)
MARKER_REQUESTS: Final = Metric(
    "minikafka_transaction_marker_requests",
    "counter",
    "Requests with markers that this node's coordinators sent, to itself, too.",
)
UNKNOWN_DESTINATION: Final = Metric(
    _MARKERS + "unknowndestinationqueuesize", "gauge", "Markers that wait for a leader of their partition."
)
LOG_APPEND_RETRY: Final = Metric(
    _MARKERS + "logappendretryqueuesize",
    "gauge",
    "Ended transactions with all markers whose completion could not be written, and will be tried again.",
)
_LOADS: Final = "Time in milliseconds to load a partition of __transaction_state, of all since the start: the "
PARTITION_LOAD_MAX: Final = Metric(
    _TRANSACTIONS + "partition_load_time_max", "gauge", _LOADS + "longest. In Kafka of the last 30 s."
)
PARTITION_LOAD_AVG: Final = Metric(
    _TRANSACTIONS + "partition_load_time_avg", "gauge", _LOADS + "average. In Kafka of the last 30 s."
)

CONNECTIONS: Final = Metric(_SOCKETS + "connection_count", "gauge", "Open connections.", _BY_LISTENER)
CONNECTIONS_MADE: Final = Metric(_SOCKETS + "connection_creation", "counter", "Accepted connections.", _BY_LISTENER)
AUTHENTICATED: Final = Metric(
    _SOCKETS + "successful_authentication",
    "counter",
    "Logins of clients by SASL. Kafka counts connections of listeners without SASL, too.",
    _BY_LISTENER,
)
NOT_AUTHENTICATED: Final = Metric(
    _SOCKETS + "failed_authentication",
    "counter",
    "Connections refused for who the client is: by SASL, by its certificate, or in the TLS handshake.",
    _BY_LISTENER,
)
REAUTHENTICATED: Final = Metric(
    _SOCKETS + "successful_reauthentication",
    "counter",
    "Logins on connections that were logged in already (connections.max.reauth.ms).",
    _BY_LISTENER,
)
NOT_REAUTHENTICATED: Final = Metric(
    _SOCKETS + "failed_reauthentication", "counter", "Of these, those that were refused.", _BY_LISTENER
)
FAILED_HANDSHAKES: Final = Metric(
    "minikafka_failed_tls_handshakes",
    "counter",
    "TLS handshakes that ended with an error, or took too long. failed_authentication has them, too.",
    _BY_LISTENER,
)
HELD_BYTES: Final = Metric(
    "minikafka_connections_held_bytes",
    "gauge",
    "Memory for incomplete or waiting requests and unread answers of connections, beyond the allowance of each.",
    _BY_LISTENER,
)
LOOP_LAG: Final = Metric(
    "minikafka_event_loop_lag_seconds",
    "histogram",
    "How late a timer of 250 ms fires, in seconds: all clients wait for so long.",
)
BUILD: Final = Metric("minikafka_build_info", "gauge", "1, with the version of minikafka.", ("version",))

SECTIONS: Final[Mapping[str, tuple[Metric, ...]]] = {
    "Traffic": (
        MESSAGES_IN,
        BYTES_IN,
        BYTES_OUT,
        REPLICATION_BYTES_IN,
        REPLICATION_BYTES_OUT,
        PRODUCE_REQUESTS,
        FETCH_REQUESTS,
        FAILED_PRODUCES,
        FAILED_FETCHES,
    ),
    "Requests": (REQUESTS, ERRORS, REQUEST_TIMES, PURGATORY, DELAYED),
    "Replicas": (
        PARTITIONS,
        LEADERS,
        UNDER_REPLICATED,
        UNDER_MIN_ISR,
        AT_MIN_ISR,
        REASSIGNING,
        OFFLINE_REPLICAS,
        ISR_SHRINKS,
        ISR_EXPANDS,
        MAX_LAG,
        LOG_SIZE,
        OFFLINE_DIRECTORIES,
    ),
    "Controller": (
        ACTIVE_CONTROLLER,
        GLOBAL_TOPICS,
        GLOBAL_PARTITIONS,
        OFFLINE_PARTITIONS,
        IMBALANCE,
        ACTIVE_BROKERS,
        FENCED_BROKERS,
    ),
    "Quorum and registration": (
        RAFT_LEADER,
        RAFT_EPOCH,
        RAFT_HIGH_WATERMARK,
        RAFT_END,
        RAFT_STATE,
        METADATA_APPLIED,
        BROKER_STATE,
    ),
    "Groups": (GROUPS, *GROUPS_BY_STATE.values()),
    "Transactions": (
        TRANSACTIONAL_IDS,
        LATE_TRANSACTIONS,
        PRODUCER_IDS,
        VERIFICATION_FAILURES,
        MARKERS,
        MARKER_REQUESTS,
        UNKNOWN_DESTINATION,
        LOG_APPEND_RETRY,
        PARTITION_LOAD_MAX,
        PARTITION_LOAD_AVG,
    ),
    "Connections and process": (
        CONNECTIONS,
        CONNECTIONS_MADE,
        AUTHENTICATED,
        NOT_AUTHENTICATED,
        REAUTHENTICATED,
        NOT_REAUTHENTICATED,
        FAILED_HANDSHAKES,
        HELD_BYTES,
        LOOP_LAG,
        BUILD,
    ),
}
CATALOGUE: Final = tuple(metric for section in SECTIONS.values() for metric in section)
"""All of them, in this order."""
