"""A node's settings: merging, defaults, what must hold between them, what is told of them."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from minikafka.config import BrokerConfig, ConfigError, ConfigSource, parse_toml
from minikafka.config.broker import WITHOUT_EFFECT, parse_dynamic_setting
from minikafka.config.setting import Setting
from minikafka.config.sources import parse_properties
from minikafka.model import Endpoint

STOCK = """
process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""
"""``config/server.properties`` of Apache Kafka 4, without the four settings about listeners that differ here."""
OF_LISTENERS = """
listeners=CLIENT://:9092,REPLICATION://localhost:9192,CONTROLLER://localhost:9093
advertised.listeners=CLIENT://localhost:9092
"""
"""What docs/operations.md says to put in their place."""
CLUSTER = {
    "node.id": 2,
    "cluster.id": "c",
    "cluster.secret": "s",
    "controller.quorum.voters": "1@a:1,2@b:2,3@c:3",
}


def test_defaults_are_those_of_a_single_node() -> None:
    config = BrokerConfig()
    assert config.node_id == 1
    assert config.voters == {1: Endpoint("127.0.0.1", 9292)}
    assert config.advertised == config.listeners
    assert config.replica_lag_time_max_ms == 10_000
    assert config.min_insync_replicas == 1


def test_later_sources_win_over_earlier_ones() -> None:
    file = parse_toml('node.id = 1\n[log]\ndirs = ["/a"]\nretention.hours = 1')
    config = BrokerConfig(file, {"log.dirs": "/b,/c"}, {"node": {"id": "7"}})
    assert (config.node_id, config.log_dirs, config.log_retention_hours) == (7, ("/b", "/c"), 1)


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(ConfigError) as raised:
        BrokerConfig({"log.dir": "/a", "num.partitions": 0, "min.insync.replica": 1, "zzz": 1, "broker.id": 1})
    assert raised.value.problems == (
        "setting 'log.dir' not found; did you mean log.dirs?",
        "num.partitions = 0: must be a whole number of 1 or more",
        "setting 'min.insync.replica' not found; did you mean min.insync.replicas?",
        "setting 'zzz' not found",
        "setting 'broker.id' not found; did you mean node.id?",
    )


def test_a_name_of_a_stranger_that_is_too_long_to_be_one_is_compared_with_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred of 30 KB took 160 ms of a turn."""
    monkeypatch.setattr(difflib, "get_close_matches", lambda *_, **__: pytest.fail("compared"))
    with pytest.raises(ConfigError, match=r"not found$"):
        BrokerConfig({"min.insync.replicas" * 10: "1"})


def test_the_stock_file_of_kafka_is_taken_over_with_other_listeners() -> None:
    config = BrokerConfig(parse_properties(STOCK + OF_LISTENERS))
    assert (config.log_segment_bytes, len(config.without_effect)) == (1 << 30, 7)
    assert OF_LISTENERS in (Path(__file__).parents[3] / "docs" / "operations.md").read_text()
    theirs = "listeners=PLAINTEXT://:9092,CONTROLLER://:9093\ncontroller.quorum.bootstrap.servers=localhost:9093\n"
    with pytest.raises(ConfigError) as raised:
        BrokerConfig(parse_properties(f"{STOCK}{theirs}inter.broker.listener.name=PLAINTEXT"))
    assert [problem.split()[-1] for problem in raised.value.problems] == ["controller.quorum.voters?", "protocol"]


def test_threads_and_buffers_of_kafka_are_taken_and_change_nothing() -> None:
    config = BrokerConfig({"num.io.threads": 8, "num.partitions": 2}, {"socket.send.buffer.bytes": "102400"})
    assert config.without_effect == ("num.io.threads", "socket.send.buffer.bytes")
    assert config.num_partitions == 2
    assert not set(WITHOUT_EFFECT) & set(BrokerConfig.rows())
    assert BrokerConfig().overridden({"num.partitions": "3"}, {}).without_effect == ()


def test_protocols_of_listeners_that_are_not_there() -> None:
    kafkas = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
    assert BrokerConfig({"listener.security.protocol.map": kafkas}).security_protocol("CLIENT") == "PLAINTEXT"
    with pytest.raises(ConfigError, match="INSIDE is not one of listeners"):
        BrokerConfig({"listener.security.protocol.map": "INSIDE:SSL"})


def test_a_secret_is_in_no_message() -> None:
    with pytest.raises(ConfigError) as raised:
        BrokerConfig({"cluster.secret": ["s3cret"]})
    assert "s3cret" not in str(raised.value)
    config = BrokerConfig({"cluster.secret": "s3cret"})
    assert config.cluster_secret == "s3cret"
    assert "s3cret" not in repr(config)
    assert "s3cret" not in str(config.describe())


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"process.roles": "controller"}, "must have broker"),
        ({"process.roles": "broker"}, "controller.quorum.voters is not set"),
        (CLUSTER | {"process.roles": "broker"}, "node 2 is one of controller.quorum.voters"),
        (CLUSTER | {"node.id": 9}, "process.roles=broker"),
        (
            {"process.roles": "broker", "node.id": 2, "controller.quorum.voters": "1@a:1", "cluster.secret": "s"},
            "cluster.id is not set",
        ),
        ({"cluster.secret": "a", "cluster.secret.file": "b"}, "both set"),
        (CLUSTER | {"node.id": 9}, "node.id = 9: must be one of controller.quorum.voters"),
        (CLUSTER | {"cluster.id": ""}, "cluster.id is not set"),
        (CLUSTER | {"cluster.secret": ""}, "cluster.secret.file"),
        ({"max.connections.per.ip": 0}, "max.connections.per.ip = 0: must be 1 or more without"),
        ({"log.dirs": "a,b,./a"}, "log.dirs: duplicate directory a"),
        ({"log.dirs": "a/t-0,ab,a"}, "log.dirs: a/t-0 is inside a;"),
        ({"listeners": "CLIENT://h:1,REPLICATION://h:2"}, "CONTROLLER is missing"),
        ({"listeners": "CLIENT://:1,REPLICATION://h:2,CONTROLLER://h:3"}, "advertised.listeners"),
        ({"advertised.listeners": "HOST://h:1"}, "HOST is not one of listeners (CLIENT, REPLICATION, CONTROLLER)"),
        (
            {"listeners": "CLIENT://h:1,HOST://:4,REPLICATION://h:2,CONTROLLER://h:3"},
            "listeners binds HOST to every address",
        ),
        (
            {"advertised.listeners": "CLIENT://0.0.0.0:9092"},
            "advertised.listeners: CLIENT cannot be 0.0.0.0:9092; name a",
        ),
        ({"listeners": "CLIENT://h:1,REPLICATION://h:1,CONTROLLER://h:3"}, "two listeners have the address h:1"),
        ({"metrics.listener": "127.0.0.1:9192"}, "two listeners have the address 127.0.0.1:9192"),
        ({"metrics.listener": "9404"}, "metrics.listener = '9404': must be host:port"),
        ({"listeners": "CLIENT://a..b:1,REPLICATION://h:2,CONTROLLER://h:3"}, "a host name with parts of 1 to 63"),
        ({"broker.heartbeat.interval.ms": 3000}, "must be below broker.session.timeout.ms = 3000"),
        ({"inter.broker.listener.name": "CLIENT"}, "must be REPLICATION: so nodes call their listener for each other"),
        ({"controller.listener.names": "CTRL"}, "must be CONTROLLER: so nodes call the listener of the quorum"),
        ({"security.inter.broker.protocol": "SSL"}, "set listener.security.protocol.map=REPLICATION:SSL on all nodes"),
        ({"group.min.session.timeout.ms": 2_000_000}, "must be below group.max.session.timeout.ms"),
        ({"replica.lag.time.max.ms": 500}, "must be below replica.lag.time.max.ms"),
        ({"controller.quorum.fetch.timeout.ms": 1}, "a whole number of 2 or more"),
    ],
)
def test_settings_that_do_not_go_together(settings: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        BrokerConfig(settings)
    assert problem in str(raised.value)


def test_settings_of_kafka_that_say_what_is_so_are_taken() -> None:
    names = {"inter.broker.listener.name": "REPLICATION", "controller.listener.names": "CONTROLLER"}
    assert BrokerConfig(names | {"security.inter.broker.protocol": "PLAINTEXT"}).security_protocol("REPLICATION")
    over_tls = {"listener.security.protocol.map": "REPLICATION:SSL", "security.inter.broker.protocol": "SSL"}
    stores = {"ssl.keystore.location": "k.pem", "ssl.truststore.location": "t.pem"}
    assert BrokerConfig(over_tls | stores).security_inter_broker_protocol == "SSL"


def test_a_node_outside_of_the_quorum_is_a_broker_only() -> None:
    config = BrokerConfig(CLUSTER | {"node.id": 9, "process.roles": "broker"})
    assert list(config.voters) == [1, 2, 3]


def test_a_listener_on_every_address_is_advertised_by_name() -> None:
    everywhere = "CLIENT://:9092,REPLICATION://:9192,CONTROLLER://:9292"
    advertised = "CLIENT://localhost:19092,REPLICATION://node-2:9192"
    config = BrokerConfig(CLUSTER, {"listeners": everywhere, "advertised.listeners": advertised})
    assert config.advertised["CLIENT"] == Endpoint("localhost", 19092)
    assert config.listeners["CLIENT"] == Endpoint("0.0.0.0", 9092)
    assert config.voters[2] == Endpoint("b", 2)


def test_any_free_port_may_be_asked_for_three_times() -> None:
    config = BrokerConfig({"listeners": "CLIENT://h:0,REPLICATION://h:0,CONTROLLER://h:0"})
    assert config.listeners["CLIENT"].port == 0


def test_settings_do_not_change() -> None:
    with pytest.raises(AttributeError, match="node_id cannot be set"):
        BrokerConfig().node_id = 2  # type: ignore[misc,assignment]


def test_dynamic_values_lie_above_static_ones_and_those_of_a_node_above_those_of_all() -> None:
    static = BrokerConfig({"min.insync.replicas": 2, "log.segment.bytes": 2000})
    config = static.overridden(
        {"log.segment.bytes": "4000", "node.id": "5", "log.roll.ms": "x"},
        {"log.segment.bytes": "3000", "min.insync.replicas": "3"},
    )
    assert (config.log_segment_bytes, config.min_insync_replicas) == (4000, 3)
    assert config.node_id == 1, "not dynamic"
    assert config.log_roll_ms is None, "does not parse"
    entry = next(entry for entry in config.describe() if entry.name == "log.segment.bytes")
    assert (entry.value, entry.source, entry.is_read_only) == ("4000", ConfigSource.DYNAMIC_BROKER_CONFIG, False)
    assert [(synonym.value, synonym.source) for synonym in entry.synonyms] == [
        ("4000", ConfigSource.DYNAMIC_BROKER_CONFIG),
        ("3000", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        ("2000", ConfigSource.STATIC_BROKER_CONFIG),
        ("1073741824", ConfigSource.DEFAULT_CONFIG),
    ]
    assert static.log_segment_bytes == 2000
    assert static.overridden({}, {}).overridden({}, {}).log_segment_bytes == 2000


def test_settings_read_at_the_start_cannot_be_changed_later() -> None:
    assert parse_dynamic_setting("message.max.bytes", "5") == 5
    with pytest.raises(ConfigError, match=r"node\.id is read when a node starts"):
        parse_dynamic_setting("node.id", "5")


def test_rows_are_named_as_kafka_names_them_and_say_what_they_are() -> None:
    rows = BrokerConfig.rows()
    assert isinstance(BrokerConfig.replica_lag_time_max_ms, Setting)
    assert rows["replica.lag.time.max.ms"] is BrokerConfig.replica_lag_time_max_ms
    for name, row in rows.items():
        assert row.doc.endswith("."), name
        assert row.parse(row.kind.format(row.default)) == row.default or row.kind.format(row.default) == "", name
