"""Brokers as threads: they fail, are repaired and end as processes do, and leave the test's process as it was."""

from __future__ import annotations

import logging
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
import structlog
from live_cluster import eventually

from minikafka.chaos.layout import ClusterError, NodeDownError
from minikafka.chaos.ports import free_base_port
from minikafka.testing import MiniKafka
from minikafka.testing.in_process import NodeThread, ThreadCluster


@pytest.fixture(autouse=True)
def temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_nothing_is_left_of_threads_also_of_a_paused_one(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONASYNCIODEBUG", "1")  # a loop that is held for long would be logged
    before, configured = set(threading.enumerate()), structlog.get_config()
    with caplog.at_level(logging.DEBUG), MiniKafka(in_process=True) as kafka:
        cluster = kafka.cluster
        directory = cluster.layout.directory
        kafka.pause(2)
        assert cluster.responsive() == [1, 3]
        time.sleep(0.2)
        assert "node=1" in cluster.layout.log_file(1).read_text()
    assert cluster.running() == {}
    assert not directory.exists()
    assert set(threading.enumerate()) <= before
    assert structlog.get_config() == configured
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_a_broker_that_cannot_go_on_ends_alone_and_says_why() -> None:
    with MiniKafka(in_process=True) as kafka:
        kafka.disk(2, full=True)
        kafka.create_topic("t", partitions=3)
        eventually(lambda: 2 not in kafka.cluster.running(), "its end")
        with pytest.raises(ClusterError, match=r"node 2 ended: the node stops: .*No space left"):
            kafka.cluster.check_alive(2)
        assert sorted(kafka.cluster.running()) == [1, 3]
        with pytest.raises(NodeDownError, match="node 2 is down; nothing was changed"):
            kafka.cut(1, 2)
        assert kafka.faults([1]) == {1: []}
        kafka.heal()
        assert kafka.faults() == {1: [], 2: [], 3: []}


def test_a_damaged_metadata_log_is_repaired_in_the_same_thread() -> None:
    with MiniKafka(in_process=True) as kafka:
        kafka.create_topic("t")
        voter = next(node for node in (1, 2, 3) if node != kafka.controller())
        kafka.kill(voter)
        (log,) = kafka.cluster.layout.data_directory(voter).glob("__cluster_metadata-0/*.log")
        with log.open("r+b") as file:
            file.seek(log.stat().st_size // 2)
            file.write(b"\xff" * 16)
        kafka.restart(voter)
        kafka.wait_until_healthy()
        assert "the metadata log is damaged" in kafka.cluster.layout.log_file(voter).read_text()


def test_a_broker_that_cannot_begin_ends_the_start(tmp_path: Path) -> None:
    cluster = ThreadCluster.create(tmp_path / "c", brokers=1, base_port=free_base_port(1), settings={})
    cluster.layout.write_files()
    cluster.layout.data_directory(1).joinpath("meta.properties").write_text("version=1\nnode.id=7\n")
    with pytest.raises(ClusterError, match=r"node 1 ended: cannot run: .*meta\.properties"):
        cluster.start()
    assert cluster.running() == {}


def test_too_few_descriptors_are_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The start ended after half a minute, with what was wrong in no line but those of the logs."""
    listdir = os.listdir

    def on_macos(path: str) -> list[str]:
        if path.startswith("/proc"):
            raise FileNotFoundError(path)
        return listdir(path)

    monkeypatch.setattr(os, "listdir", on_macos)
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (64, 64))
    with pytest.raises(
        ClusterError, match=r"^3 brokers in this process need \d+ file descriptors, and its limit is 64: "
    ):
        MiniKafka(in_process=True, directory=tmp_path / "kafka").start()


@pytest.mark.parametrize("in_process", [False, True], ids=["processes", "threads"])
def test_nobody_starts_a_broker_of_a_cluster_that_has_ended(in_process: bool) -> None:
    """A thread that was about to restart one did, while the files were being removed."""
    with MiniKafka(brokers=1, in_process=in_process) as kafka:
        cluster = kafka.cluster
        kafka.kill(1)
    with pytest.raises(ClusterError, match="this cluster has ended; make another one"):
        cluster.spawn(1)


def test_a_process_that_forgets_its_brokers_ends(tmp_path: Path) -> None:
    """Their executors had ended before: each broker logged a bug."""
    program = (
        "from minikafka.testing import MiniKafka\n"
        "if __name__ == '__main__':\n"
        "    kafka = MiniKafka(in_process=True).start()\n"
        "    kafka.pause(1)\n"
        "    kafka.create_topic('t', partitions=9)\n"
        "    print('ready', flush=True)\n"
    )
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ready\n", "")
    logs = [log.read_text() for log in tmp_path.glob("minikafka-*/node-*/broker.log")]
    assert [("Traceback" in log, "cannot run" in log, "stopped" in log) for log in logs] == [(False, False, True)] * 3


def test_a_paused_leader_is_deposed() -> None:
    with MiniKafka(in_process=True, settings={"broker.session.timeout.ms": 1000}) as kafka:
        kafka.create_topic("t", partitions=1)
        leader = kafka.leader_of("t")
        kafka.pause(leader)
        eventually(lambda: kafka.leader_of("t") != leader, "another leader")
        kafka.resume(leader)
        kafka.wait_until_healthy()


def test_a_broker_is_told_again_and_before_it_has_begun() -> None:
    """A second pause waited ten seconds and failed; a stop of a broker that was only just started was never heard."""
    with MiniKafka(in_process=True) as kafka:
        kafka.pause(1)
        kafka.pause(1, 1)
        assert cluster_paused(kafka) == [1]
        kafka.resume(1)
        kafka.resume(1)
        kafka.pause(1)
        kafka.kill_all()
        for end in (kafka.stop, kafka.kill):
            kafka.cluster.spawn(1)
            end(1)
        kafka.cluster.spawn(1)
        kafka.pause(1)
        assert cluster_paused(kafka) == [1]
        kafka.cluster.spawn(2)
        assert not kafka.cluster.stop_node(2), "it ended by itself"
        kafka.heal()
        assert cluster_paused(kafka) == []


def cluster_paused(kafka: MiniKafka) -> list[int]:
    return [node_id for node_id, node in kafka.cluster.running().items() if node.paused]


def test_a_forked_process_keeps_no_broker_from_ending_and_starting() -> None:
    """Its copies of the sockets took connections that nobody answered, kept the ports in use, and clients connected."""
    with MiniKafka(brokers=1, in_process=True) as kafka:
        port = int(kafka.bootstrap_servers.rpartition(":")[2])
        client = socket.create_connection(("127.0.0.1", port), timeout=30)
        kafka.controller()  # it has accepted by the time when it answers another one
        reading, writing = os.pipe()
        begun, has_begun = os.pipe()
        child = os.fork()
        if not child:
            os.write(has_begun, b"x")  # its copies are closed: until it first ran, they would take connections
            os.close(writing)
            with suppress(ClusterError):
                kafka.cluster.kill(1)  # it is not there
            os.read(reading, 1)
            os._exit(0)
        assert os.read(begun, 1) == b"x"
        for end in (reading, begun, has_begun):
            os.close(end)
        kafka.kill(1)
        with client:
            assert client.recv(1) == b""
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        kafka.restart(1)
        os.close(writing)
        assert os.waitpid(child, 0)[1] == 0
        kafka.wait_until_healthy()


def test_a_broker_that_began_when_its_test_was_interrupted_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody could end it, and every later test of the run found its port in use."""
    start = NodeThread.start

    def interrupted(node: NodeThread) -> None:
        start(node)
        raise KeyboardInterrupt

    with MiniKafka(brokers=1, in_process=True) as kafka:
        kafka.kill(1)
        with monkeypatch.context() as patch:
            patch.setattr(NodeThread, "start", interrupted)
            with pytest.raises(KeyboardInterrupt):
                kafka.restart(1)
        assert set(kafka.cluster.running()) == {1}
        kafka.heal()


def test_a_broker_that_begins_after_its_test_was_interrupted_ends_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread is on its way when Ctrl-C comes: it was not up, so nothing ended it, and files were made that stayed."""
    late: list[NodeThread] = []

    def interrupted(node: NodeThread) -> None:
        late.append(node)
        raise KeyboardInterrupt

    kafka = MiniKafka(brokers=1, in_process=True, directory=tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(NodeThread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            kafka.start()
    (node,) = late
    node.start()
    has_ended = node.join(2)
    node.begin_kill()
    assert has_ended


def test_a_broker_whose_end_was_not_waited_for_is_still_up() -> None:
    """Ctrl-C in stop() or kill(): the broker counted as ended, and was started again beside itself."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with MiniKafka(brokers=1, in_process=True) as kafka:
            node = kafka.cluster.running()[1]
            assert isinstance(node, NodeThread)
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(KeyboardInterrupt):
                node.join(20)
            assert set(kafka.cluster.running()) == {1}
    finally:
        signal.signal(signal.SIGALRM, before)
