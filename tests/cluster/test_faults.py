"""Faults that a running node takes by command, each by its effect on a real client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import kafka as kafka_python
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kafka import KafkaConsumer
from kafka.errors import OffsetOutOfRangeError
from live_cluster import eventually

from minikafka.chaos.faults import CLIENTS
from minikafka.chaos.layout import ClusterError
from minikafka.testing import MiniKafka

TOPIC = "t"
LATE_MS = 400


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniKafka]:
    with MiniKafka(directory=tmp_path_factory.mktemp("faults") / "kafka") as kafka:
        kafka.create_topic(TOPIC, 1, settings={"min.insync.replicas": 2})
        yield kafka


@pytest.fixture
def kafka(shared: MiniKafka) -> Iterator[MiniKafka]:
    yield shared
    shared.heal()


class Outcome:
    """What became of some records: those acknowledged, errors, and the time it took."""

    def __init__(self, kafka: MiniKafka, count: int = 5, **settings: Any) -> None:
        self.acknowledged: list[bytes] = []
        self.errors: set[str] = set()
        known = {"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0, "linger.ms": 0, "client.id": "writer"}
        limits = {"socket.timeout.ms": 2_000, "message.timeout.ms": 60_000, "retry.backoff.ms": 50}
        self.producer = Producer({**known, **limits, **{name.replace("_", "."): v for name, v in settings.items()}})
        began = time.monotonic()
        for _ in range(count):
            self.producer.produce(TOPIC, str(time.monotonic_ns()).encode(), on_delivery=self._on_delivery)
        assert self.producer.flush(90) == 0
        self.seconds = time.monotonic() - began

    def _on_delivery(self, error: KafkaError | None, message: Any) -> None:
        if error is None:
            self.acknowledged.append(message.value())
        else:
            self.errors.add(error.name())


def values(kafka: MiniKafka) -> list[bytes]:
    return [record.value or b"" for record in kafka.records(TOPIC)]


def in_force(kafka: MiniKafka) -> list[str]:
    return [sentence for sentences in kafka.faults(kafka.cluster.running()).values() for sentence in sentences]


# -- files --------------------------------------------------


@pytest.mark.parametrize("is_running", [True, False], ids=["running", "down"])
@pytest.mark.parametrize("cut", [False, True], ids=["changed", "cut"])
def test_a_damaged_replica_is_mended_and_no_client_sees_it(kafka: MiniKafka, is_running: bool, cut: bool) -> None:
    before = Outcome(kafka, 20)
    leader = kafka.leader_of(TOPIC)
    if not is_running:
        kafka.kill(leader)
    done = kafka.damage(leader, TOPIC, cut=cut)
    assert f"{TOPIC}-0/" in done
    if is_running:
        kafka.restart(leader)
    kafka.heal()
    after = Outcome(kafka)
    assert values(kafka)[-25:] == before.acknowledged + after.acknowledged
    others = [broker for broker in (1, 2, 3) if broker != leader]
    kafka.kill(*others[:1])  # so that the mended one is needed, and may lead
    assert Outcome(kafka).errors == set()


def test_what_cannot_be_damaged_is_said(kafka: MiniKafka) -> None:
    with pytest.raises(ClusterError, match="has no replica of nope-0"):
        kafka.damage(1, "nope")
    with pytest.raises(ClusterError, match="node 7 not found"):
        kafka.damage(7, TOPIC)


# -- links --------------------------------------------------


def test_a_leader_without_links_is_replaced_and_comes_back(kafka: MiniKafka) -> None:
    leader = kafka.leader_of(TOPIC)
    before = Outcome(kafka)
    kafka.isolate(leader)
    others = [broker for broker in (1, 2, 3) if broker != leader]
    assert f"nothing arrives from node {leader}" in kafka.faults(others)[others[0]]
    during = Outcome(kafka)
    assert eventually(lambda: kafka.leader_of(TOPIC) != leader, "another leader")
    kafka.heal()
    assert kafka.faults() == {1: [], 2: [], 3: []}
    assert values(kafka)[-10:] == before.acknowledged + during.acknowledged


def test_a_controller_that_is_heard_and_does_not_hear_is_replaced(kafka: MiniKafka) -> None:
    """A one-way cut: its followers' fetches do not arrive, so it resigns; brokers' heartbeats neither."""
    controller = kafka.controller()
    others = [broker for broker in (1, 2, 3) if broker != controller]
    for other in others:
        kafka.cut(other, controller, one_way=True)
    assert in_force(kafka).count(f"nothing arrives at node {controller}") == 2
    eventually(lambda: kafka.cluster.quorum().leader_id in others, "another controller")


def test_a_cut_link_between_two_nodes_leaves_the_third_in_sync(kafka: MiniKafka) -> None:
    leader, controller = kafka.leader_of(TOPIC), kafka.controller()
    follower = next(broker for broker in (1, 2, 3) if broker not in (leader, controller))
    kafka.cut(leader, follower)
    written = Outcome(kafka)
    assert len(written.acknowledged) == 5
    kafka.cluster.wait_for(
        lambda view: any(follower not in each.in_sync_replicas for each in view.partitions if each.topic == TOPIC),
        "the follower to leave the ISR",
    )
    kafka.heal()


def test_answers_to_clients_come_late_or_slowly(kafka: MiniKafka) -> None:
    leader = kafka.leader_of(TOPIC)
    kafka.slow(leader, CLIENTS, delay_ms=LATE_MS)
    assert Outcome(kafka).seconds >= LATE_MS / 1000
    payload = b"x" * 100_000
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    producer.produce(TOPIC, payload)
    assert producer.flush(60) == 0
    kafka.slow(leader, CLIENTS, bytes_per_s=100_000)
    began = time.monotonic()
    assert payload in values(kafka)
    assert time.monotonic() - began >= 0.9
    kafka.slow(leader, CLIENTS)
    assert in_force(kafka) == []


def test_what_acks_1_promised_is_read_though_followers_are_slow(kafka: MiniKafka) -> None:
    """aiokafka asks for no more by default, and a test found its record missing after a failover."""
    leader = kafka.leader_of(TOPIC)
    for follower in {1, 2, 3} - {leader}:
        kafka.slow(leader, follower, delay_ms=LATE_MS)
    outcome = Outcome(kafka, count=1, acks=1)
    assert values(kafka)[-1:] == outcome.acknowledged


def test_what_does_not_arrive_from_clients_is_not_answered(kafka: MiniKafka) -> None:
    """It may arrive when the link is whole again, as with TCP: its outcome is unknown."""
    leader = kafka.leader_of(TOPIC)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0, "message.timeout.ms": 1_000})
    producer.list_topics(TOPIC, 30)
    kafka.cut(CLIENTS, leader, one_way=True)
    errors: list[str] = []
    producer.produce(TOPIC, b"lost", on_delivery=lambda error, _: errors.append(error.name()))
    assert producer.flush(60) == 0
    assert errors == ["_MSG_TIMED_OUT"]
    del producer
    kafka.mend()
    assert values(kafka).count(b"lost") <= 1


def test_records_of_a_leader_that_does_not_answer_are_not_waited_for_for_ever(kafka: MiniKafka) -> None:
    kafka.cut(kafka.leader_of(TOPIC), CLIENTS)
    with pytest.raises(ClusterError, match="the records of 't' could not be read: nothing came for 1 s; heal"):
        kafka.records(TOPIC, timeout_s=1)


# -- disk and clock --------------------------------------------------


def test_a_node_that_cannot_read_its_logs_leads_no_more_and_nothing_is_lost(kafka: MiniKafka) -> None:
    before = Outcome(kafka)
    leader = kafka.leader_of(TOPIC)
    kafka.disk(leader, unreadable=True)
    assert in_force(kafka) == ["logs cannot be read"]
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "g", "log_level": 0})
    with suppress(KafkaException):  # KAFKA_STORAGE_ERROR, or the broker has left the cluster already
        consumer.offsets_for_times([TopicPartition(TOPIC, 0, int(time.time() * 1000) - 60_000)], timeout=30)
    consumer.close()
    eventually(lambda: kafka.leader_of(TOPIC) != leader, "another leader")
    after = Outcome(kafka)
    assert values(kafka)[-10:] == before.acknowledged + after.acknowledged


def test_a_node_with_a_full_disk_ends_and_nothing_is_lost(kafka: MiniKafka) -> None:
    leader = kafka.leader_of(TOPIC)
    kafka.disk(leader, full=True)
    written = Outcome(kafka)
    assert len(written.acknowledged) == 5
    eventually(lambda: leader not in kafka.cluster.running(), "the node to end")
    assert "No space left on device" in kafka.cluster.layout.log_file(leader).read_text()
    kafka.heal()
    assert set(written.acknowledged) <= set(values(kafka))


def test_slow_syncs_hold_up_what_is_synced_only(kafka: MiniKafka) -> None:
    kafka.create_topic("synced", 1, settings={"flush.messages": 1, "min.insync.replicas": 2})
    for broker in (1, 2, 3):
        kafka.disk(broker, sync_delay_ms=LATE_MS)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0, "linger.ms": 0})
    producer.produce("synced", b"synced")
    began = time.monotonic()
    assert producer.flush(60) == 0
    assert time.monotonic() - began >= LATE_MS / 1000
    kafka.mend(what="disk")
    assert in_force(kafka) == []
    kafka.delete_topic("synced")


@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "stopped"])
def test_what_a_lying_disk_took_is_lost_as_if_power_went(tmp_path: Path, is_killed: bool) -> None:
    """Of one broker, which nobody else has: the client sees it. Stopped in order, the broker has lost nothing."""
    settings = {"offsets.topic.replication.factor": 1}
    with MiniKafka(1, settings=settings, directory=tmp_path / "kafka", in_process=True) as kafka:
        kafka.create_topic(TOPIC)
        before = Outcome(kafka)
        kafka.disk(1, lying=True)
        assert in_force(kafka) == ["what is written is lost when the node is killed, whatever the disk says of syncs"]
        after = Outcome(kafka)
        (kafka.kill if is_killed else kafka.stop)(1)
        kafka.heal()
        assert in_force(kafka) == []
        assert values(kafka) == before.acknowledged + ([] if is_killed else after.acknowledged)


def test_a_node_that_lost_power_does_not_lead_without_what_it_lost(kafka: MiniKafka) -> None:
    """All are killed, and it comes back before the others, which have lost nothing (decision 0005)."""
    leader = kafka.leader_of(TOPIC)
    kafka.disk(leader, lying=True)
    written = Outcome(kafka)
    kafka.kill_all()
    kafka.cluster.spawn(leader)
    kafka.heal()
    assert values(kafka)[-5:] == written.acknowledged


def test_a_wrong_clock_stamps_records(kafka: MiniKafka) -> None:
    kafka.create_topic("stamped", 1, settings={"message.timestamp.type": "LogAppendTime"})
    began_ms = time.time() * 1000
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0, "linger.ms": 0})
    kafka.clock(kafka.leader_of("stamped"), drift=100.0)
    for pause_s in (0, 0.05):
        time.sleep(pause_s)
        producer.produce("stamped", b"x")
        assert producer.flush(60) == 0
    for off_ms in (3_600_000, -3_600_000):
        kafka.clock(kafka.leader_of("stamped"), off_ms, drift=0.5)
        producer.produce("stamped", b"x")
        assert producer.flush(60) == 0
    first, second, ahead, back = (record.timestamp - began_ms for record in kafka.records("stamped"))
    assert second - first > 4_000, "a hundred seconds in one"
    assert 3_500_000 < ahead < 4_200_000
    assert -1_000 < back < 600_000, "no record gets an old time, or retention would take it"
    assert "the clock is wrong by -3," in in_force(kafka)[0]
    kafka.delete_topic("stamped")


# -- rules --------------------------------------------------


@pytest.mark.parametrize(
    "rule",
    [
        {"error": "NOT_LEADER_OR_FOLLOWER"},
        {"error": "REQUEST_TIMED_OUT", "after": True},
        {"disconnect": True},
        {"disconnect": True, "after": True},
        {"drop": True},
        {"drop": True, "after": True},
        {"delay_ms": LATE_MS},
    ],
    ids=lambda rule: "-".join(rule),
)
def test_a_producer_gets_over_it_and_each_record_is_there_once(kafka: MiniKafka, rule: dict[str, Any]) -> None:
    leader = kafka.leader_of(TOPIC)
    before = len(values(kafka))
    kafka.rule("Produce", **rule, times=1, client_id="writ*", brokers=[leader])
    outcome = Outcome(kafka, enable_idempotence=True)
    assert len(outcome.acknowledged) == 5
    assert in_force(kafka) == []  # it was used up
    assert values(kafka)[before:] == outcome.acknowledged
    if "delay_ms" in rule:
        assert outcome.seconds >= LATE_MS / 1000
    elif "drop" in rule:
        assert outcome.seconds >= 1.5  # of the client's socket.timeout.ms


def test_an_error_reaches_the_application(kafka: MiniKafka) -> None:
    numbers = kafka.rule("Produce", error="TOPIC_AUTHORIZATION_FAILED", client_id="writer")
    assert Outcome(kafka).errors == {"TOPIC_AUTHORIZATION_FAILED"}
    assert Outcome(kafka, client_id="another").errors == set()
    kafka.remove_rule(numbers)
    assert Outcome(kafka).errors == set()


@pytest.mark.parametrize(
    "rule", [{"error": "NOT_LEADER_OR_FOLLOWER"}, {"disconnect": True, "after": True}], ids=["error", "end-after"]
)
def test_a_producer_without_answers_loses_its_connection(kafka: MiniKafka, rule: dict[str, Any]) -> None:
    """As in Apache Kafka: with acks=0 nothing else tells a client of an error."""
    lost: list[str] = []
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0, "linger.ms": 0, "acks": 0}
    producer = Producer(settings | {"error_cb": lambda error: lost.append(error.name())})
    before = len(values(kafka))
    kafka.rule("Produce", **rule, times=1)
    producer.produce(TOPIC, b"unanswered")
    eventually(lambda: producer.poll(0.1) or "_TRANSPORT" in lost, "a lost connection")
    assert values(kafka)[before:] == [b"unanswered"] * ("after" in rule)


def test_a_read_gets_its_error_too(kafka: MiniKafka) -> None:
    Outcome(kafka)
    kafka.rule("Fetch", error="TOPIC_AUTHORIZATION_FAILED", client_id="reader", times=1)
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "g", "client.id": "reader", "log_level": 0}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    seen: list[str] = []

    def has_read() -> bool:
        message = consumer.poll(0.1)
        if message is not None:
            seen.append("record" if (error := message.error()) is None else error.name())
        return "record" in seen

    eventually(has_read, "a record after the error")
    consumer.close()
    assert seen[0] == "TOPIC_AUTHORIZATION_FAILED"


def test_an_error_of_a_partition_reaches_a_consumer_with_a_fetch_session(kafka: MiniKafka) -> None:
    """Its later fetches name no partitions, and their answers those with news: the error needs one to be said of."""
    Outcome(kafka)
    settings = kafka.client_config("kafka-python") | {"client_id": "session", "auto_offset_reset": "none"}
    consumer = KafkaConsumer(enable_auto_commit=False, **settings)
    consumer.assign([partition := kafka_python.TopicPartition(TOPIC, 0)])
    consumer.seek(partition, 0)
    eventually(lambda: consumer.poll(100), "records")
    while consumer.poll(100):
        pass
    kafka.rule("Fetch", error="OFFSET_OUT_OF_RANGE", client_id="session", times=1, brokers=[kafka.leader_of(TOPIC)])
    with pytest.raises(OffsetOutOfRangeError):
        eventually(lambda: consumer.poll(100), "an error")
    consumer.close()


def test_an_older_broker_is_spoken_to_in_its_versions(kafka: MiniKafka) -> None:
    kafka.rule("Produce", versions="0-7")
    assert len(Outcome(kafka).acknowledged) == 5
    kafka.rule("FindCoordinator", versions="6")  # which librdkafka does not speak
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "g", "log_level": 0})
    with pytest.raises(Exception, match=r"_TIMED_OUT|_WAIT_COORD|UNSUPPORTED"):
        consumer.committed([TopicPartition(TOPIC, 0)], timeout=1)
    consumer.close()


def test_an_answer_that_comes_twice_is_noticed_by_the_client(kafka: MiniKafka) -> None:
    kafka.rule("Produce", duplicate=True, times=1, brokers=[kafka.leader_of(TOPIC)])
    assert len(Outcome(kafka).acknowledged) == 5
    assert in_force(kafka) == []


# -- bad input --------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda kafka: kafka.rule("Prodce", drop=True), "clients have no API 'Prodce'; did you mean Produce"),
        (lambda kafka: kafka.rule("Produce", error="NOPE"), "Kafka has no error 'NOPE'"),
        (lambda kafka: kafka.rule("Produce", drop=True, brokers=[]), "an empty list names none"),
        (lambda kafka: kafka.slow(1, 1, delay_ms=5), "there is no link from 1 to itself"),
        (lambda kafka: kafka.rule("Produce"), "a rule has one effect of error, delay, .*; this one has none"),
        (lambda kafka: kafka.rule("Produce", drop=True, delay_ms=1), "this one has delay, drop"),
        (lambda kafka: kafka.rule("Produce", versions="x"), "'x' are no versions; write 3, 0-3 or 5"),
        (lambda kafka: kafka.rule("ApiVersions", versions="0"), "the versions of ApiVersions itself cannot be fewer"),
        (lambda kafka: kafka.remove_rule({1: 77}), "there is no rule 77"),
        (lambda kafka: kafka.cut(1, 9), "node 9 not found; the nodes of this cluster are 1, 2, 3"),
        (lambda kafka: kafka.cut(1, 1), "there is no link from 1 to itself"),
        (lambda kafka: kafka.clock(9), "node 9 not found"),
    ],
)
def test_what_cannot_be_is_said(shared: MiniKafka, wrong: Callable[[MiniKafka], object], message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        wrong(shared)


def test_a_node_that_is_down_is_named(kafka: MiniKafka) -> None:
    kafka.kill(2)
    with pytest.raises(ClusterError, match=r"node 2 does not answer; is it up\?"):
        kafka.mend([2])
    with pytest.raises(ClusterError, match=r"node 2 is down; nothing was changed"):
        kafka.cut(1, 2)
    assert kafka.faults([1]) == {1: []}


def test_a_node_that_was_not_started_for_tests_refuses(tmp_path: Path) -> None:
    refusal = pytest.raises(ClusterError, match=r"not started for tests; set fault\.injection\.enable=true")
    with MiniKafka(1, settings={"fault.injection.enable": False}, directory=tmp_path / "kafka") as kafka, refusal:
        kafka.clock(1, 5)
