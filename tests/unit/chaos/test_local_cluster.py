"""What a local cluster refuses and reports. (Clusters that run are tested in tests/cluster.)"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from live_cluster import eventually

from minikafka.chaos import observed
from minikafka.chaos.cluster_status import cluster_status
from minikafka.chaos.forks import ForkServer
from minikafka.chaos.layout import ClusterError, ClusterLayout, LoginRefusedError, NodeDownError
from minikafka.chaos.local_cluster import LocalCluster, check_edited, running_directories
from minikafka.chaos.ports import free_base_port
from minikafka.config.security import STANDARD_AUTHORIZER


@pytest.fixture
def cluster(tmp_path: Path) -> LocalCluster:
    return LocalCluster.create(tmp_path / "c", brokers=3, base_port=free_base_port(3))


def test_a_cluster_that_was_never_started_is_down(cluster: LocalCluster) -> None:
    status = cluster_status(cluster)
    assert [node.state for node in status.nodes] == ["down"] * 3
    assert status.view is None
    assert not status.healthy
    assert cluster.stop() == []


def test_a_copy_of_a_directory_does_not_write_to_the_original(cluster: LocalCluster, tmp_path: Path) -> None:
    """Its files name those of the original."""
    original = cluster.layout.directory
    cluster.layout.write_files()
    copy = LocalCluster.open(shutil.copytree(original, tmp_path / "copy"))
    with pytest.raises(
        ClusterError, match=f"the cluster in {original}, of which this is a copy; write {tmp_path}/copy"
    ):
        copy.start()
    assert not copy.running()
    for node_id in copy.node_ids:
        file = copy.layout.config_file(node_id)
        file.write_text(file.read_text().replace(str(original), str(copy.layout.directory)))
        check_edited(copy.layout, node_id)


def test_a_listener_that_verbs_cannot_speak_to_is_refused_before_nodes_start(cluster: LocalCluster) -> None:
    """Whoever makes an open cluster secure would wait until its healthy nodes are killed."""
    cluster.layout.write_files()
    file = cluster.layout.config_file(2)
    secured = "listener.security.protocol.map=CLIENT:SASL_SSL\nssl.keystore.location=/k\n"
    file.write_text(file.read_text() + secured)
    with pytest.raises(ClusterError, match=f"{file}: listener CLIENT must speak PLAINTEXT, not SASL_SSL"):
        cluster.start()
    assert not cluster.running()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"super.users": "User:admin"}, "super.users must have User:ANONYMOUS, too"),
        ({"super.users": "User:admin;User:ANONYMOUS"}, None),
        ({"allow.everyone.if.no.acl.found": "true"}, None),
    ],
)
def test_a_cluster_in_which_nobody_may_do_anything_is_not_made(
    settings: dict[str, str], said: str | None, tmp_path: Path
) -> None:
    settings |= {"authorizer.class.name": STANDARD_AUTHORIZER}
    made = LocalCluster.create(tmp_path / "c", brokers=1, base_port=free_base_port(1), settings=settings)
    with pytest.raises(ClusterError, match=said) if said else nullcontext():
        made.check()


def test_nodes_that_know_another_password_go_on(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Who has it can get in; and the line says which file has the wrong one."""
    secure = ClusterLayout.create(tmp_path / "secure", 1, free_base_port(1), {}, secure=True)
    secure.write_files()
    cluster = LocalCluster(secure)
    monkeypatch.setattr(cluster, "_spawn", lambda _ids, started: started.append(1))
    monkeypatch.setattr(cluster, "check_alive", lambda _id: None)
    monkeypatch.setattr(cluster, "_kill_started", lambda ids: killed.extend(ids))
    monkeypatch.setattr(observed, "login_refusal", lambda _endpoint, entrance: entrance.sasl and why)
    killed: list[int] = []
    why: str | None = "invalid credentials"
    file = secure.logins.password_file("admin")
    with pytest.raises(LoginRefusedError, match=f"does not take the password of admin in {file}: invalid cred"):
        cluster.start(timeout_s=0.01)
    assert not killed
    why = None
    with pytest.raises(ClusterError, match="not ready"):
        cluster.start(timeout_s=0.01)
    assert killed == [1]


def test_a_port_in_use_is_named_before_anything_starts(cluster: LocalCluster) -> None:
    port = cluster.layout.ports(2)[1]
    with (
        socket.create_server(("127.0.0.1", port)),
        pytest.raises(ClusterError, match=f"port {port}, which node 2 needs, is in use"),
    ):
        cluster.start()
    assert cluster.running() == {}
    assert not cluster.layout.pid_file(1).exists()


def test_a_node_that_dies_at_once_is_reported_with_the_reason_in_its_log(tmp_path: Path) -> None:
    cluster = LocalCluster.create(
        tmp_path / "c", brokers=1, base_port=free_base_port(1), settings={"log.segment.bytes": "potato"}
    )
    with pytest.raises(ClusterError) as error:
        cluster.start()
    line = cluster.layout.log_file(1).read_text().splitlines()[-1]
    assert str(error.value) == f"node 1 ended: {line}\nits settings: {cluster.layout.config_file(1)}"
    assert cluster.running() == {}


def test_nodes_do_not_outlive_a_start_that_is_interrupted_while_others_are_still_spawned(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawn = LocalCluster._fork

    def spawn_one_and_be_interrupted(self: LocalCluster, node_id: int) -> None:
        spawn(self, node_id)
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalCluster, "_fork", spawn_one_and_be_interrupted)
    with pytest.raises(KeyboardInterrupt):
        cluster.start()
    assert cluster.layout.pid_file(1).exists()
    assert cluster.running() == {}


@pytest.mark.parametrize("where", ["_ask", "start"])
def test_a_node_does_not_outlive_a_start_that_is_interrupted_before_its_process_is_known(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """The server's answer was read, and nobody has it."""
    work = getattr(ForkServer, where)
    count = 0

    def interrupted(self: ForkServer, *args: Any, **more: Any) -> Any:
        nonlocal count
        answer = work(self, *args, **more)
        count += where == "start" or "arguments" in args[0]
        if count == 2:
            count += 1
            raise KeyboardInterrupt
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(ForkServer, where, interrupted)
        with pytest.raises(KeyboardInterrupt):
            cluster.start()
    assert cluster.layout.log_file(2).exists()
    survivors = cluster.running()
    cluster.kill_all()
    assert survivors == {}


def test_all_are_killed_though_one_ends_meanwhile(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a test failed, and the others ran on."""
    up, killed = {1: object(), 2: object()}, []

    def kill(*nodes: int) -> None:
        if 2 in nodes:
            del up[2]
            raise NodeDownError("node 2 is down")
        killed.extend(nodes)
        up.clear()

    monkeypatch.setattr(cluster, "running", lambda: dict(up))
    monkeypatch.setattr(cluster, "kill", kill)
    cluster.kill_all()
    assert killed == [1]
    monkeypatch.undo()


@pytest.mark.parametrize("verb", ["kill", "pause", "resume", "restart", "start_node", "stop_node"])
def test_a_node_that_does_not_exist_is_refused(cluster: LocalCluster, verb: str) -> None:
    with pytest.raises(ClusterError, match="node 4 not found; the nodes of this cluster are 1, 2, 3"):
        getattr(cluster, verb)(4)


@pytest.mark.parametrize("verb", ["kill", "pause", "resume", "stop_node"])
def test_a_node_that_is_down_cannot_be_broken_further(cluster: LocalCluster, verb: str) -> None:
    with pytest.raises(ClusterError, match="node 2 is down; start it with: minikafka cluster restart 2"):
        getattr(cluster, verb)(2)


def test_a_node_joins_a_cluster_that_runs(cluster: LocalCluster) -> None:
    with pytest.raises(ClusterError, match="no controller quorum to join"):
        cluster.add_node()
    assert cluster.node_ids == [1, 2, 3]


def test_a_removed_node_is_forgotten_with_its_directory(cluster: LocalCluster) -> None:
    cluster.layout = cluster.layout.with_added_node()
    cluster.layout.write_files()
    cluster.remove_node(4)
    assert LocalCluster.open(cluster.layout.directory).node_ids == [1, 2, 3]
    assert not cluster.layout.node_directory(4).exists()
    with pytest.raises(ClusterError, match="node 4 not found"):
        cluster.remove_node(4)
    with pytest.raises(ClusterError, match="votes in the controller quorum"):
        cluster.remove_node(1)


def test_a_recycled_process_id_is_not_taken_for_a_node(cluster: LocalCluster) -> None:
    cluster.layout.write_files()
    cluster.layout.pid_file(1).write_text(f"{os.getpid()}\n")
    assert cluster.process(1) is None
    cluster.layout.pid_file(1).write_text("gibberish")
    assert cluster.process(1) is None


@pytest.mark.parametrize("pid", [None, "gibberish", "of a process that ended"])
def test_a_node_that_runs_in_a_terminal_is_seen(cluster: LocalCluster, pid: str | None) -> None:
    """It writes no pid file, and there may be that of an earlier process."""
    cluster.layout.write_files()
    cluster.layout.log_file(1).touch()
    path = cluster.layout.config_file(1)
    if pid is not None:
        with subprocess.Popen(["true"]) as ended:
            pass
        cluster.layout.pid_file(1).write_text(f"{ended.pid if pid.startswith('of') else pid}\n")
    assert cluster.process(1) is None
    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen([*sleep, "-m", "minikafka.broker", "--config", str(path), "--set", "a=b"]) as node:
        try:
            eventually(lambda: cluster.process(1) is not None, "the node to be seen")
            found = cluster.process(1)
            assert found is not None
            assert found.pid == node.pid
            assert cluster.layout.directory in running_directories()
        finally:
            node.kill()
    assert cluster.process(1) is None


def test_waiting_in_vain_says_for_what(cluster: LocalCluster) -> None:
    with pytest.raises(ClusterError, match=r"not ready after 0.01 s: node 1, 2, 3"):
        cluster.wait_ready(timeout_s=0.01)
    with pytest.raises(ClusterError, match=r"timed out after 0.01 s waiting for every replica to be in sync"):
        cluster.wait_in_sync(timeout_s=0.01)


def test_waiting_long_says_for_what_meanwhile(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that began without one of its voters looked hung for ten seconds."""
    monkeypatch.setattr(observed, "QUIET_S", 0.0)
    monkeypatch.setattr(observed, "LOOKS_APART_S", 0.0)
    said: list[str] = []
    cluster.on_waiting = said.append
    with pytest.raises(ClusterError, match="not ready"):
        cluster.wait_ready(timeout_s=0.1)
    assert said == ["waiting until ready: node 1, 2, 3; node 1 has logged nothing yet"], "once"
