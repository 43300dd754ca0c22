"""Completion in a real bash: it breaks a line into words in its own way, and takes what it gets for text to type."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from select import select

import pytest
from cluster_cli import QuickCommandLine
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from live_cluster import eventually

from minikafka.chaos.local_cluster import LocalCluster

TAB = "\t"
PROMPT = "bash> "
"""Shown once bash has the terminal: what is typed before that is echoed by the system, to which Tab is a letter."""
TURN_S = 5.0
NAMES = ("oysters", "oy$(touch made)", "oy\\$(touch made)", "oy`touch made`", "oy sters", "oy*")


class Bash:
    """One with a terminal."""

    def __init__(self, directory: Path) -> None:
        self._process, self._terminal = pty.fork()
        if not self._process:
            programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
            environment = {"PATH": programs, "HOME": str(directory), "PS1": PROMPT, "TERM": "dumb", "COLUMNS": "200"}
            os.chdir(directory)
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], environment)
        self._seen = ""
        eventually(lambda: PROMPT in self.shown(), "bash")
        self.type('eval "$(_MINIKAFKA_COMPLETE=source_bash minikafka)"; echo rea""dy\n')
        eventually(lambda: f"ready\r\n{PROMPT}" in self.shown(), "bash to know how to complete")

    def type(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def shown(self) -> str:
        """All that it has shown, and what it shows next, unless that takes long."""
        is_there, _, _ = select([self._terminal], [], [], TURN_S)
        self._seen += os.read(self._terminal, 65536).decode() if is_there else ""
        return self._seen

    def complete(self) -> str:
        """Whoever presses Tab waits a second at most; on a busy machine that may be too short."""
        self.type(TAB)
        return self.shown()

    def end(self) -> None:
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        os.close(self._terminal)


@pytest.fixture
def bash(tmp_path: Path) -> Iterator[Bash]:
    if not shutil.which("bash"):
        pytest.skip("bash is not installed")
    bash = Bash(tmp_path)
    yield bash
    bash.end()


def test_bash_completes_a_name_of_the_servers_in_the_line_and_no_command(
    bash: Bash, server: LocalCluster, tmp_path: Path
) -> None:
    """Groups may have any name, and some shells evaluate what they are offered."""
    minikafka = QuickCommandLine(server.layout.directory)
    minikafka("topic", "create", "shells")
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    for name in NAMES:
        offsets = ConsumerGroupTopicPartitions(name, [TopicPartition("shells", 0, 0)])
        admin.alter_consumer_group_offsets([offsets])[name].result()
    bash.type(f"minikafka group describe -b 127.0.0.1:{server.layout.client_port(1)} oy")
    eventually(lambda: "sters " in bash.complete(), "the one name that is no command")
    assert not (tmp_path / "made").exists()
