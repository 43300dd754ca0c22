"""The cluster for tests of an application: it is ready, it ends, and it leaves its logs where they are needed."""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
import time
import unittest
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from live_cluster import eventually

from minikafka.chaos.faults import RunningNode
from minikafka.chaos.forks import ForkServer
from minikafka.chaos.layout import ClusterError
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.chaos.processes import RunningProcess, look_up
from minikafka.client import Admin
from minikafka.client import Producer as MiniProducer
from minikafka.client.admin import FeatureChange
from minikafka.client.admin.configs import ALL_BROKERS, BROKER_LOGGER_RESOURCE, BROKER_RESOURCE, GROUP_RESOURCE
from minikafka.client.admin.quotas import QuotaEntity
from minikafka.errors import KafkaError
from minikafka.testing import MiniKafka

CLIENT = QuotaEntity(None, "app", has_user=False, has_client_id=True)
IN_BOTH = pytest.mark.parametrize("in_process", [False, True], ids=["processes", "threads"])


@pytest.fixture(autouse=True)
def temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_nothing_is_left_of_a_cluster() -> None:
    with MiniKafka(brokers=1, settings={"num.partitions": "2"}) as kafka:
        cluster = kafka.cluster
        view = cluster.view()
        assert view is not None
        assert view.broker_ids == {1}
        directory = cluster.layout.directory
        assert "num.partitions=2" in cluster.layout.config_file(1).read_text().replace(" ", "")
    assert cluster.running() == {}
    assert not directory.exists()


@IN_BOTH
def test_who_coordinates_and_who_controls_is_told(in_process: bool) -> None:
    with MiniKafka(in_process=in_process) as kafka:
        assert kafka.controller() in kafka.cluster.node_ids
        with pytest.raises(ClusterError, match="group 'work' has no coordinator yet"):
            kafka.coordinator_of("work")
        consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "work", "log_level": 0})
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
        kafka.create_topic("t")
        consumer.commit(offsets=[TopicPartition("t", 0, 0)], asynchronous=False)
        described = admin.describe_consumer_groups(["work"])["work"].result(30)
        assert kafka.coordinator_of("work") == described.coordinator.id
        consumer.close()


@IN_BOTH
def test_what_is_broken_is_healed_and_records_are_there(in_process: bool) -> None:
    with MiniKafka(in_process=in_process) as kafka:
        kafka.create_topic("t", partitions=2, replication_factor=3, settings={"min.insync.replicas": 2})
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0, "linger.ms": 0})
        values = [str(number).encode() for number in range(10)]
        for number, value in enumerate(values):
            producer.produce("t", value, partition=number % 2)
        kafka.pause(1)
        kafka.kill(2)
        kafka.heal()
        assert producer.flush(60) == 0
        assert [record.value for record in kafka.records("t")] == values[::2] + values[1::2]
        kafka.stop(3)
        kafka.restart(3)
        kafka.wait_until_healthy()
        kafka.delete_topic("t")
        with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            kafka.delete_topic("t")


async def fail_in_a_transaction(producer: MiniProducer) -> None:
    async with producer.transaction():
        await producer.send_and_wait("t", b"aborted")
        print(1 / 0)


@IN_BOTH
async def test_it_is_used_in_coroutines_as_well(in_process: bool) -> None:
    async with MiniKafka(brokers=1, in_process=in_process) as kafka:
        kafka.create_topic("t", partitions=1)
        async with MiniProducer(kafka.bootstrap_servers, transactional_id="id") as producer:
            async with producer.transaction():
                await producer.send_and_wait("t", b"committed")
            with pytest.raises(ZeroDivisionError):
                await fail_in_a_transaction(producer)
        assert [record.value for record in kafka.records("t", committed=True)] == [b"committed"]
        assert [record.value for record in kafka.records("t")] == [b"committed", b"aborted"]


def test_a_start_waits_for_nodes_that_others_started_and_not_for_paused_ones() -> None:
    """Of two starts at once the second returned at once, and clients found nobody."""
    with MiniKafka(brokers=1) as kafka:
        cluster = kafka.cluster
        cluster.kill(1)
        cluster._spawn_missing([1], [])
        assert cluster.start() == []
        assert cluster.controller() == 1
        cluster.pause(1)
        with pytest.raises(ClusterError, match=r"paused: node 1; resume with: resume\(1\)"):
            cluster.start()


def test_after_an_error_the_logs_are_kept_and_named() -> None:
    with pytest.raises(ZeroDivisionError) as raised, MiniKafka(brokers=1):
        print(1 / 0)
    (note,) = raised.value.__notes__
    directory = Path(note.removeprefix("the brokers' logs: ").removesuffix("/node-*/broker.log"))
    assert LocalCluster.open(directory).running() == {}
    (log,) = directory.glob("node-*/broker.log")
    assert "started" in log.read_text()


def test_settings_may_be_numbers_and_a_directory_text(tmp_path: Path) -> None:
    settings: dict[str, str | int | float] = {"num.partitions": 2, "auto.create.topics.enable": False}
    with MiniKafka(brokers=1, settings=settings, directory=str(tmp_path / "kafka")) as kafka:
        written = kafka.cluster.layout.config_file(1).read_text()
        with pytest.raises(ClusterError, match="node '1' not found; the nodes of this cluster are 1"):
            kafka.kill("1")  # type: ignore[arg-type]
    assert "num.partitions=2\nauto.create.topics.enable=false\n" in written


@pytest.mark.parametrize(("brokers", "settings"), [(0, {}), (1, {"nope": "1"})])
def test_nothing_is_left_of_a_cluster_that_cannot_be(brokers: int, settings: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(ClusterError) as raised, MiniKafka(brokers, settings=settings):
        pass
    assert not hasattr(raised.value, "__notes__")  # there are no logs to name
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_of_a_start_that_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By Ctrl-C: nobody was told of its directory."""
    started: list[LocalCluster] = []

    def interrupted(cluster: LocalCluster, **_: object) -> None:
        started.append(cluster)
        assert cluster.running()
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalCluster, "wait_ready", interrupted)
    with pytest.raises(KeyboardInterrupt):
        MiniKafka(brokers=1).start()
    assert started[0].running() == {}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("point", ["_create", "start"])
async def test_nothing_is_left_of_a_start_that_is_cancelled(
    point: str, again: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a time-out, or Ctrl-C in a coroutine: its thread went on, and the brokers ran as long as the process. They did
    so, too, if it was cancelled at each step, as anyio does it."""
    begun, may_go_on = threading.Event(), threading.Event()
    where = {"_create": MiniKafka, "start": LocalCluster}[point]
    step = {"_create": MiniKafka._create, "start": lambda _cluster: None}[point]

    def held(*arguments: object) -> object:
        begun.set()
        assert may_go_on.wait(30)
        return step(*arguments)  # type: ignore[operator]

    monkeypatch.setattr(LocalCluster, "start", lambda _cluster: None)
    monkeypatch.setattr(where, point, held)
    entering = asyncio.ensure_future(MiniKafka(brokers=1).__aenter__())
    await asyncio.to_thread(begun.wait, 30)

    def cancel() -> None:
        if entering.cancel() and again:
            asyncio.get_running_loop().call_soon(cancel)

    cancel()
    await asyncio.sleep(0)
    may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await entering
    assert os.listdir(tmp_path) == []


async def test_who_is_cancelled_leaves_when_all_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    end = LocalCluster.end

    def ended_late(cluster: LocalCluster) -> None:
        time.sleep(0.1)
        end(cluster)

    monkeypatch.setattr(LocalCluster, "start", lambda _cluster: None)
    monkeypatch.setattr(LocalCluster, "end", ended_late)
    kafka = MiniKafka(brokers=1)
    await kafka.__aenter__()
    leaving = asyncio.ensure_future(kafka.__aexit__(None, None, None))
    await asyncio.sleep(0)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    assert os.listdir(tmp_path) == []


def test_nothing_is_left_of_an_end_that_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By Ctrl-C, when the tests are over."""
    interruptions = iter([KeyboardInterrupt])
    end = LocalCluster.end

    def interrupted(cluster: LocalCluster) -> None:
        end(cluster)
        for each in interruptions:
            raise each

    monkeypatch.setattr(LocalCluster, "start", lambda _cluster: None)
    monkeypatch.setattr(LocalCluster, "end", interrupted)
    with pytest.raises(KeyboardInterrupt), MiniKafka(brokers=1):
        assert list(tmp_path.iterdir())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "is_failure"),
    [
        (KeyboardInterrupt(), False),
        (SystemExit(0), False),
        (SystemExit(1), True),
        (unittest.SkipTest("why"), False),
        (pytest.skip.Exception("why"), False),
        (pytest.xfail.Exception("why"), False),
        (pytest.fail.Exception("why"), True),
        (asyncio.CancelledError(), True),
    ],
    ids=repr,
)
def test_logs_are_kept_of_what_failed_only(
    error: BaseException, is_failure: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each skipped test left a folder in the temporary directory."""
    monkeypatch.setattr(LocalCluster, "start", lambda _cluster: None)
    with pytest.raises(type(error)), MiniKafka(brokers=1):
        raise error
    assert bool(list(tmp_path.iterdir())) == is_failure
    assert hasattr(error, "__notes__") == is_failure


def test_a_node_whose_pid_file_is_gone_is_still_seen_and_ended() -> None:
    """A status said that it had been killed, a start that its port was in use, and a stop that no node was running."""
    with MiniKafka(brokers=1) as kafka:
        cluster = kafka.cluster
        before = cluster.process(1)
        assert before is not None
        cluster.layout.pid_file(1).unlink()
        found = cluster.process(1)
        assert found is not None
        assert found.pid == before.pid
    assert cluster.running() == {}


def test_a_directory_of_ones_own_is_kept(tmp_path: Path) -> None:
    with MiniKafka(brokers=1, directory=tmp_path / "kafka"):
        pass
    assert "started" in (tmp_path / "kafka/node-1/broker.log").read_text()


def test_a_setting_that_is_not_known_is_told_before_anything_starts(tmp_path: Path) -> None:
    with (
        pytest.raises(ClusterError, match=r"setting 'num\.partition' not found; did you mean num\.partitions\?"),
        MiniKafka(settings={"num.partition": "2"}, directory=tmp_path / "kafka"),
    ):
        pass
    assert not list(tmp_path.glob("kafka/node-*/broker.log"))


def test_a_cluster_is_started_once_and_ends_once(tmp_path: Path) -> None:
    kafka = MiniKafka(brokers=1, directory=tmp_path / "kept")
    with pytest.raises(ClusterError, match="this cluster was not started yet"):
        kafka.kill(1)
    kafka.close()
    with kafka:
        with pytest.raises(ClusterError, match="this cluster was started before; make another one"):
            kafka.start()
        _leave_in_a_child(kafka)
        kafka.kill(1)
        with pytest.raises(ClusterError, match=r"node 1 is down; start it with: restart\(1\)$"):
            kafka.kill(1)
        with pytest.raises(ClusterError, match=r"no node answers; start the cluster with: heal\(\)$"):
            kafka.leader_of("t")
    kafka.close()
    for call in (kafka.heal, kafka.reset, lambda: kafka.restart(1), lambda: kafka.bootstrap_servers):
        with pytest.raises(ClusterError, match="this cluster has ended; make another one"):
            call()


def _leave_in_a_child(kafka: MiniKafka) -> None:
    """As one that a test forked and that ends with an exception, which leaves the block."""
    child = os.fork()
    if not child:
        kafka.close(SystemExit())
        os._exit(0)
    os.waitpid(child, 0)
    assert list(kafka.cluster.running()) == [1]


def test_a_broker_that_a_verb_has_added_ends_with_the_others() -> None:
    """`minikafka cluster add` in a command of `minikafka run` left a process behind, for good if the command failed."""
    with MiniKafka(1) as kafka:
        command = LocalCluster.open(kafka.cluster.layout.directory)
        assert command.add_node() == 2
        added = command.running()[2]
    assert look_up(added.pid, added.command) is None


def test_a_number_of_brokers_that_cannot_be_is_refused() -> None:
    for brokers in (-1, 0, 100):
        with pytest.raises(ClusterError, match=f"a cluster has 1 to 99 brokers, not {brokers}"):
            MiniKafka(brokers).start()


@IN_BOTH
def test_a_cluster_begins_anew_with_the_same_brokers(in_process: bool) -> None:
    with MiniKafka(in_process=in_process) as kafka:
        servers = kafka.bootstrap_servers
        before = {node_id: _number(node) for node_id, node in kafka.cluster.running().items()}
        for round_ in range(2):
            for number in range(5):
                kafka.create_topic(f"t-{number}", partitions=2)
            producer = Producer({"bootstrap.servers": servers, "transactional.id": "copier", "log_level": 0})
            producer.init_transactions(60)
            producer.begin_transaction()
            producer.produce("t-0", str(round_).encode(), partition=0)
            producer.commit_transaction(60)
            del producer  # ends it: it would look for its coordinator, and have the topic of that made again
            consumer = Consumer({"bootstrap.servers": servers, "group.id": "work", "log_level": 0})
            consumer.commit(offsets=[TopicPartition("t-0", 0, 1)], asynchronous=False)
            consumer.close()
            assert [record.value for record in kafka.records("t-0")] == [str(round_).encode()]
            asyncio.run(_change_settings(servers))
            kafka.pause(1)  # a reset heals first
            kafka.reset()
            assert asyncio.run(_what_is_left(servers)) == ([], {}, [], [], [], "INFO", [])
        assert {node_id: _number(node) for node_id, node in kafka.cluster.running().items()} == before


def test_a_producer_that_goes_on_does_not_keep_a_cluster_from_beginning_anew() -> None:
    """It makes its topic again at once."""
    with MiniKafka() as kafka:
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0, "linger.ms": 0})
        for value in (b"before", b"after"):
            producer.produce("t", value)
            assert producer.flush(60) == 0
            if value == b"before":
                producer.produce("t", b"meanwhile")
                kafka.reset()
        assert [record.value for record in kafka.records("t")][-1] == b"after"


def _number(node: RunningNode) -> int:
    return node.pid if isinstance(node, RunningProcess) else id(node)


async def _change_settings(servers: str) -> None:
    async with Admin(servers) as admin:
        await admin.alter_quotas(CLIENT, {"producer_byte_rate": 1e6})
        await admin.alter_resource(GROUP_RESOURCE, "work", {"consumer.session.timeout.ms": "50000"})
        await admin.alter_broker_configs(None, {"log.retention.ms": "1000000"})
        await admin.alter_broker_configs(2, {"log.retention.ms": "2000000"})
        await admin.alter_resource(BROKER_LOGGER_RESOURCE, "2", {"root": "ERROR"})
        await admin.update_features({"transaction.version": 1}, change=FeatureChange.SAFE_DOWNGRADE)


async def _what_is_left(servers: str) -> tuple[object, ...]:
    async with Admin(servers) as admin:
        changed = [
            each
            for broker in (ALL_BROKERS, "1", "2", "3")
            for each in await admin.describe_resource(BROKER_RESOURCE, broker)
            if each.name == "log.retention.ms" and not each.is_default
        ]
        (level,) = await admin.describe_resource(BROKER_LOGGER_RESOURCE, "2")
        return (
            await admin.list_topics(internal=True),
            await admin.describe_quotas(),
            await admin.list_groups(),
            await admin.list_config_resources(GROUP_RESOURCE),
            changed,
            level.value,
            [name for name, each in (await admin.describe_features()).items() if each.level < each.highest],
        )


def test_a_broker_that_began_when_its_test_was_interrupted_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody could end it, and every later test of the run found its port in use."""
    start = ForkServer.start

    def interrupted(*words: Any, **more: Any) -> None:
        start(*words, **more)
        raise KeyboardInterrupt

    with MiniKafka(brokers=1) as kafka:
        kafka.kill(1)
        with monkeypatch.context() as patch:
            patch.setattr(ForkServer, "start", interrupted)
            with pytest.raises(KeyboardInterrupt):
                kafka.restart(1)
        eventually(lambda: set(kafka.cluster.running()) == {1}, "the broker", 10)
        kafka.heal()
