"""Settings: who this node is, where it listens and keeps its data, and its bounds on connections."""

from __future__ import annotations

from typing import Final

from minikafka.config.kinds import (
    INT_MAX,
    boolean,
    choice,
    counts_by_address,
    endpoint,
    endpoints,
    integer,
    long,
    nullable,
    secret,
    text,
    voters,
    words,
)
from minikafka.config.setting import Setting, SettingGroup
from minikafka.model import Endpoint

CLIENT: Final = "CLIENT"
REPLICATION: Final = "REPLICATION"
CONTROLLER: Final = "CONTROLLER"
LISTENER_NAMES: Final = (CLIENT, REPLICATION, CONTROLLER)

DEFAULT_LISTENERS: Final = {
    CLIENT: Endpoint("127.0.0.1", 9092),
    REPLICATION: Endpoint("127.0.0.1", 9192),
    CONTROLLER: Endpoint("127.0.0.1", 9292),
}


class NodeSettings(SettingGroup):
    """The node: identity, listeners, directories, connections."""

    node_id = Setting(integer(), 1, kafka="none", doc="This node's id; every node of a cluster has its own.")
    process_roles = Setting(
        words("broker", "controller"),
        ("broker", "controller"),
        kafka="none",
        doc="""What the process does: broker,controller for the nodes of controller.quorum.voters, broker for one that
        joins them without a vote. A controller alone is not supported.""",
    )
    cluster_id = Setting(
        nullable(text(r"[A-Za-z0-9_-]{1,64}", "1 to 64 of the characters A-Z, a-z, 0-9, _ and -")),
        None,
        doc="""The cluster this node belongs to; a node with another id is refused. Needed when there are several
        nodes. A single node without one makes its own at its first start.""",
    )
    cluster_secret = Setting(
        nullable(secret()),
        None,
        doc="""Secret with which nodes authenticate each other for replication and controller traffic. Needed, here or
        in cluster.secret.file, when there are several nodes.""",
    )
    cluster_secret_file = Setting(nullable(text()), None, doc="A file that holds the cluster secret.")
    log_dirs = Setting(
        words(),
        ("minikafka-data",),
        kafka="/tmp/kafka-logs",  # noqa: S108 - of Kafka
        doc="Directories for partitions, the metadata log and checkpoints; relative to the working directory.",
    )
    broker_rack = Setting(
        nullable(text()),
        None,
        doc="The rack or zone of this node: replicas are spread over racks, consumers may read in their own.",
    )
    listeners = Setting(
        endpoints(),
        DEFAULT_LISTENERS,
        kafka="PLAINTEXT://:9092",
        doc="""Addresses of the listeners: CLIENT for clients, REPLICATION for followers, CONTROLLER for the quorum and
        for brokers reporting to the controller. Further names are further listeners for clients, each with an
        advertised address of its own: one for each network from which clients come. Every broker needs the same names.
        Port 0 takes any free port.""",
    )
    advertised_listeners = Setting(
        endpoints(),
        {},
        doc="""Addresses for other hosts, if they differ from the bound ones (outside a container, or for a listener
        bound to every address). A client learns the addresses of the listener that it came by.""",
    )
    controller_quorum_voters = Setting(
        voters(),
        {},
        doc="""The nodes of the controller quorum and where their CONTROLLER listeners are reached, the same on every
        node, also on brokers that are not among them. Empty: this node alone.""",
    )
    controlled_shutdown_enable = Setting(
        boolean(), True, doc="Move leaderships to other brokers before the node stops."
    )
    socket_request_max_bytes = Setting(
        integer(1),
        104_857_600,
        doc="A request that announces more than this closes its connection. One of a client may have 4 MiB, "
        "not counting the records of a Produce.",
    )
    queued_max_request_bytes = Setting(
        long(1 << 20),
        33_554_432,
        kafka="-1",
        doc="""Memory of all client connections for incomplete or waiting requests and unread answers, in addition to
        128 KiB for each, or less if that were more than as much again for all, but not less than 8 KiB; listeners for
        clients have equal shares of it. Beyond it, connections that need more than theirs are not read from until
        memory is free; far beyond it, the connection with the most memory is closed.""",
    )
    max_connections = Setting(
        integer(1),
        INT_MAX,
        dynamic=True,
        doc="Connections the node accepts; the limit of open files, less what logs need, bounds it too.",
    )
    max_connections_per_ip = Setting(
        integer(),
        INT_MAX,
        dynamic=True,
        doc="""Connections of clients that the node accepts from one address, over all listeners for clients. 0
        only with max.connections.per.ip.overrides.""",
    )
    max_connections_per_ip_overrides = Setting(
        counts_by_address(),
        {},
        dynamic=True,
        doc="Other bounds for some addresses, as ADDRESS:COUNT.",
    )
    connections_max_idle_ms = Setting(long(1), 600_000, doc="A connection without a request for so long is closed.")
    logging_level = Setting(
        choice("debug", "info", "warning", "error"), "info", kafka="none", doc="Least level of the node's log lines."
    )
    logging_format = Setting(
        choice("console", "json"),
        "console",
        kafka="none",
        doc="Log lines on standard error: for people, in colours on a terminal; or a JSON object each.",
    )
    loop_turn_warn_ms = Setting(
        integer(),
        0,
        kafka="none",
        doc="""Log each turn of the event loop that takes more CPU time than this, and what it was busy with; 0: do not
        watch.""",
    )
    fault_injection_enable = Setting(
        boolean(),
        False,
        kafka="none",
        doc="""Take commands that break this node for tests: its links, disk and clock, and what it answers. They come
        over the CONTROLLER listener, from who knows the cluster's secret. Never in production.""",
    )
    metrics_listener = Setting(
        nullable(endpoint()),
        None,
        kafka="none",
        doc="""Address of an HTTP listener with /metrics for Prometheus (for which pip install 'minikafka[metrics]'),
        /healthz and /readyz, for example 127.0.0.1:9404; empty: none. It asks for no password: bind it where only
        monitoring reaches it. Port 0 takes any free port.""",
    )
    fetch_max_bytes = Setting(
        integer(1024), 57_671_680, doc="Most bytes one fetch answer carries, whatever the client asked for."
    )
    max_incremental_fetch_session_cache_slots = Setting(
        integer(0), 1000, doc="Incremental fetch sessions the node remembers (KIP-227)."
    )
