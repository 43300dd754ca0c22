"""Nodes that are forked: what one sees of them is what one sees of processes started by exec."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from live_cluster import PATIENCE_S, eventually, free_base_port

from minikafka.chaos.forks import ForkedNode, ForkServer, fork_server, lifeline
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.chaos.processes import look_up, search

WRONG_SETTINGS = 2
BEGIN_ONE = """
import sys
from pathlib import Path
from minikafka.chaos.layout import ClusterLayout
from minikafka.chaos.local_cluster import LocalCluster

cluster = LocalCluster.create(
    Path(sys.argv[1]), brokers=1, base_port=int(sys.argv[2]), detached=sys.argv[3] == "detached"
)
cluster.start()
print(cluster.process(1).pid, flush=True)
sys.stdin.read()
"""


def start(directory: Path, *arguments: str, environment: dict[str, str] | None = None) -> ForkedNode:
    log = directory / "log"
    log.touch()
    return fork_server().start(
        arguments, directory=directory, log=log, environment=environment or {}, lifeline=lifeline()
    )


def test_a_node_tells_its_exit_code_and_its_log_has_what_it_printed(tmp_path: Path) -> None:
    node = start(tmp_path, "--config", "missing.properties")
    assert node.wait() == node.poll() == node.returncode == WRONG_SETTINGS
    assert "cannot read missing.properties" in (tmp_path / "log").read_text()


def test_a_node_has_the_directory_and_the_environment_that_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "here.properties").write_text("node.id=1\n")
    node = start(tmp_path, "--config", "here.properties", environment={"MINIKAFKA_LOG_SEGMENT_BYTES": "potato"})
    assert node.wait() == WRONG_SETTINGS
    assert "log.segment.bytes" in (tmp_path / "log").read_text()


def test_a_node_whose_files_are_gone_says_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C twice while a cluster starts showed a traceback."""
    server = ForkServer()
    try:
        node = server.start([], directory=tmp_path, log=tmp_path / "gone", environment={}, lifeline=None)
        assert node.wait() == 1
    finally:
        server.close()
    assert capfd.readouterr().err == ""


def test_a_node_is_known_by_its_command_line_at_once_however_long_that_is(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["a directory with a long name"] * 30)
    deep.mkdir(parents=True)
    config = deep / "server.properties"
    os.mkfifo(config)  # it waits for its settings
    node = start(tmp_path, "--config", str(config), "--set", "a=b")
    try:
        found = look_up(node.pid, "minikafka.broker", str(config), "--set", "a=b")
        assert found is not None
        assert found.command.startswith(sys.executable)
        assert node.poll() is None
    finally:
        node.kill()
    assert node.wait() == -signal.SIGKILL


def test_a_server_that_was_killed_is_replaced_and_its_nodes_go_on(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    os.mkfifo(config)
    before = fork_server()
    node = start(tmp_path, "--config", str(config))
    before._process.kill()
    before._process.wait()
    other = start(tmp_path, "--config", str(config))
    assert fork_server() is not before
    assert (node.poll(), other.poll()) == (None, None)
    for each in (node, other):
        each.kill()
        assert each.wait() == -signal.SIGKILL


def test_a_node_whose_start_was_interrupted_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer with its process id is read by the next who asks."""
    config = tmp_path / "server.properties"
    os.mkfifo(config)
    server = fork_server()
    answers = server._answers

    class Interrupted:
        def __iter__(self) -> Iterator[bytes]:
            raise KeyboardInterrupt

    monkeypatch.setattr(server, "_answers", Interrupted())
    with pytest.raises(KeyboardInterrupt):
        start(tmp_path, "--config", str(config))
    eventually(lambda: search("minikafka.broker", str(config)), "the node to be started")
    monkeypatch.setattr(server, "_answers", answers)
    start(tmp_path, "--config", str(tmp_path / "missing")).wait()
    eventually(lambda: search("minikafka.broker", str(config)) is None, "the node to be killed")


def test_an_interrupted_start_ends_when_the_node_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The starter then removed its files, and the node, which came to them later, had its traceback on the terminal."""
    config = tmp_path / "server.properties"
    os.mkfifo(config)
    server = fork_server()
    answers = server._answers

    class InterruptedOnce:
        def __iter__(self) -> Iterator[bytes]:
            monkeypatch.setattr(server, "_answers", answers)
            eventually(lambda: search("minikafka.broker", str(config)), "the node to be started")
            raise KeyboardInterrupt

    monkeypatch.setattr(server, "_answers", InterruptedOnce())
    with pytest.raises(KeyboardInterrupt):
        start(tmp_path, "--config", str(config))
    eventually(lambda: search("minikafka.broker", str(config)) is None, "the node to be killed")


def test_a_node_whose_end_was_told_to_nobody_has_ended(tmp_path: Path) -> None:
    """Whoever asked was interrupted. The server goes on."""
    server = fork_server()
    node = start(tmp_path, "--config", "missing.properties")
    eventually(lambda: server.status(node.pid) is not None, "the node to be reaped")
    assert node.poll() == -signal.SIGKILL
    assert start(tmp_path, "--config", "missing.properties").wait() == WRONG_SETTINGS
    assert fork_server() is server


def test_a_child_of_the_starter_sees_whether_nodes_run(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    os.mkfifo(config)
    node = start(tmp_path, "--config", str(config))
    seen = os.fork()
    if not seen:
        status = 1
        try:
            status = 0 if node.poll() is None else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(seen, 0)[1]) == 0
    node.kill()
    assert node.wait() == -signal.SIGKILL


def in_a_child(work: Callable[[], bool]) -> bool:
    """The answer of a child of this process; False when it hangs."""
    child = os.fork()
    if not child:
        status = 1
        try:
            status = 0 if work() else 2
        finally:
            os._exit(status)
    give_up_s = time.monotonic() + PATIENCE_S
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > give_up_s:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return False
        time.sleep(0.005)
    return os.waitstatus_to_exitcode(ended[1]) == 0


def test_a_process_may_be_forked_while_a_thread_of_it_waits_for_an_answer(tmp_path: Path) -> None:
    """The child has no such thread, so what that holds is not given back there."""
    config = tmp_path / "server.properties"
    os.mkfifo(config)
    server = fork_server()
    node = start(tmp_path, "--config", str(config))
    os.kill(server._process.pid, signal.SIGSTOP)
    asking = threading.Thread(target=node.poll)
    asking.start()
    try:
        eventually(server._turn.locked, "the thread to wait")
        assert in_a_child(lambda: node.poll() is None)
    finally:
        os.kill(server._process.pid, signal.SIGCONT)
        asking.join()
        node.kill()
        node.wait()


def test_a_child_of_a_child_keeps_its_own_descriptors(tmp_path: Path) -> None:
    start(tmp_path, "--config", "missing.properties").wait()

    def open_some_and_fork() -> bool:
        own = [os.open(os.devnull, os.O_RDONLY) for _ in range(30)]  # in the places of those that are closed here
        return in_a_child(lambda: all(os.fstat(each) for each in own))

    assert in_a_child(open_some_and_fork)


def test_nodes_end_with_the_process_that_made_their_cluster_whoever_starts_them(tmp_path: Path) -> None:
    of_parent = LocalCluster.create(tmp_path / "parent", brokers=1, base_port=free_base_port(1), detached=False)

    def start_both() -> bool:
        of_child = LocalCluster.create(tmp_path / "child", brokers=1, base_port=free_base_port(1), detached=False)
        return of_parent.start() == of_child.start() == [1]

    assert in_a_child(start_both)
    eventually(lambda: LocalCluster.open(tmp_path / "child").process(1) is None, "the node to end")
    assert list(of_parent.running()) == [1]
    of_parent.kill_all()


def test_a_server_depends_on_neither_the_directory_nor_the_signals_of_its_starter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.joinpath("logging.py").write_text("raise ImportError('of the user')")
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "server.properties"
    os.mkfifo(config)
    log = tmp_path / "log"
    log.touch()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    server = ForkServer()
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    node = server.start(["--config", str(config)], directory=tmp_path, log=log, environment={}, lifeline=None)
    try:
        os.kill(node.pid, signal.SIGTERM)
        eventually(lambda: node.poll() == -signal.SIGTERM, "the node to end")
    finally:
        node.kill()
        server.close()


@pytest.mark.parametrize("how", ["detached", "with its starter"])
def test_what_ends_with_its_starter_and_what_does_not(tmp_path: Path, how: str) -> None:
    """Even if both are killed, and the node is paused."""
    starting = [sys.executable, "-c", BEGIN_ONE, str(tmp_path / "c"), str(free_base_port(1)), how]
    with subprocess.Popen(starting, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        os.kill(pid, signal.SIGSTOP)
        starter.kill()
    if how != "detached":
        eventually(lambda: look_up(pid, "minikafka.broker") is None, "the node to end")
        return
    assert look_up(pid, "minikafka.broker") is not None
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: look_up(pid, "minikafka.broker") is None, "the node to end")
