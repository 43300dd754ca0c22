"""The cluster for tests of an application: it is ready, it ends, and it leaves its logs where they are needed."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from minikafka.chaos.layout import ClusterError
from minikafka.testing import temporary_cluster


@pytest.fixture(autouse=True)
def temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_nothing_is_left_of_a_cluster() -> None:
    with temporary_cluster(brokers=1, settings={"num.partitions": "2"}) as cluster:
        view = cluster.view()
        assert view is not None
        assert view.broker_ids == {1}
        directory = cluster.layout.directory
        assert "num.partitions=2" in cluster.layout.config_file(1).read_text().replace(" ", "")
    assert cluster.running() == {}
    assert not directory.exists()


def test_who_coordinates_and_who_controls_is_told() -> None:
    with temporary_cluster() as cluster:
        view = cluster.view()
        assert view is not None
        assert cluster.controller() in view.broker_ids
        with pytest.raises(ClusterError, match="group 'work' has no coordinator yet"):
            cluster.coordinator_of("work")
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "work", "log_level": 0})
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic("t", 1)])["t"].result(30)
        consumer.commit(offsets=[TopicPartition("t", 0, 0)], asynchronous=False)
        described = admin.describe_consumer_groups(["work"])["work"].result(30)
        assert cluster.coordinator_of("work") == described.coordinator.id
        consumer.close()


def test_a_start_waits_for_nodes_that_others_started_and_not_for_paused_ones() -> None:
    """Of two starts at once the second returned at once, and clients found nobody."""
    with temporary_cluster(brokers=1) as cluster:
        cluster.kill(1)
        cluster._spawn_missing([1], [])
        assert cluster.start() == []
        assert cluster.controller() == 1
        cluster.pause(1)
        with pytest.raises(ClusterError, match="paused: node 1; resume with: minikafka cluster resume 1"):
            cluster.start()


def test_after_an_error_the_logs_are_kept_and_named() -> None:
    with pytest.raises(ZeroDivisionError) as raised, temporary_cluster(brokers=1) as cluster:
        print(1 / 0)
    (note,) = raised.value.__notes__
    assert note == f"the brokers' logs: {cluster.layout.directory}/node-*/broker.log"
    assert cluster.running() == {}
    (log,) = Path(cluster.layout.directory).glob("node-*/broker.log")
    assert "started" in log.read_text()


def test_settings_may_be_numbers_and_a_directory_text(tmp_path: Path) -> None:
    settings: dict[str, str | int | float] = {"num.partitions": 2, "auto.create.topics.enable": False}
    with temporary_cluster(brokers=1, settings=settings, directory=str(tmp_path / "kafka")) as cluster:
        written = cluster.layout.config_file(1).read_text()
        with pytest.raises(ClusterError, match="node '1' not found; the nodes of this cluster are 1"):
            cluster.kill("1")  # type: ignore[arg-type]
    assert "num.partitions=2\nauto.create.topics.enable=false\n" in written


@pytest.mark.parametrize(("brokers", "settings"), [(0, {}), (1, {"nope": "1"})])
def test_nothing_is_left_of_a_cluster_that_cannot_be(brokers: int, settings: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(ClusterError) as raised, temporary_cluster(brokers, settings):
        pass
    assert not hasattr(raised.value, "__notes__")  # there are no logs to name
    assert list(tmp_path.iterdir()) == []


def test_a_node_whose_pid_file_is_gone_is_still_seen_and_ended() -> None:
    """A status said that it had been killed, a start that its port was in use, and a stop that no node was running."""
    with temporary_cluster(brokers=1) as cluster:
        before = cluster.process(1)
        assert before is not None
        cluster.layout.pid_file(1).unlink()
        found = cluster.process(1)
        assert found is not None
        assert found.pid == before.pid
    assert cluster.running() == {}


def test_a_directory_of_ones_own_is_kept(tmp_path: Path) -> None:
    with temporary_cluster(brokers=1, directory=tmp_path / "kafka"):
        pass
    assert "started" in (tmp_path / "kafka/node-1/broker.log").read_text()


def test_a_setting_that_is_not_known_is_told_before_anything_starts(tmp_path: Path) -> None:
    with (
        pytest.raises(ClusterError, match=r"setting 'num\.partition' not found; did you mean num\.partitions\?"),
        temporary_cluster(settings={"num.partition": "2"}, directory=tmp_path / "kafka"),
    ):
        pass
    assert not list(tmp_path.glob("kafka/node-*/broker.log"))
