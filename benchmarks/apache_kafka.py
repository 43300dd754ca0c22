"""Three nodes of Apache Kafka on this machine, to compare with: its jars are Maven's, its processes end with this one.

Each node is a broker and a voter, as ours are, with the heap and the collector of Kafka's own start scripts.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from benchmarks.machine import cpu_seconds
from minikafka.chaos.authority import Authority
from minikafka.chaos.layout import HOST, new_cluster_id, replication_defaults
from minikafka.chaos.ports import free_base_port
from minikafka.client import Security
from minikafka.client.other_clients import client_config
from minikafka.client.security import PLAIN

VERSION: Final = "4.3.1"
ARTIFACTS: Final = ("kafka_2.13", "kafka-tools")
JVM_OPTIONS: Final = (
    *("-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true"),
)
NODES: Final = 3
_PROGRAMS: Final = ("java", "mvn", "setpriv")
_TLS: Final = "SSL"
_CERTIFIED: Final = "kafka"
_MAVEN_PATIENCE_S: Final = 300.0
_READY_PATIENCE_S: Final = 90.0
_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
_POM: Final = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>minikafka</groupId><artifactId>reference</artifactId><version>1</version>
  <dependencies>{dependencies}</dependencies>
</project>
"""
_DEPENDENCY: Final = (
    "<dependency><groupId>org.apache.kafka</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
)


class NotHereError(Exception):
    """Java, Maven or Kafka's jars are not to be had on this machine."""


def class_path() -> str:
    """The class path of Kafka's server and tools, which Maven fetches where it does not have them. NotHereError."""
    if missing := [program for program in _PROGRAMS if shutil.which(program) is None]:
        raise NotHereError(f"not installed: {', '.join(missing)}")
    with tempfile.TemporaryDirectory(prefix="minikafka-bench-") as directory:
        pom, found = Path(directory) / "pom.xml", Path(directory) / "class-path"
        pom.write_text(_POM.format(dependencies="".join(_DEPENDENCY.format(name, VERSION) for name in ARTIFACTS)))
        command = ["mvn", "-q", "-B", "-f", str(pom), f"{_PLUGIN}:build-classpath", f"-Dmdep.outputFile={found}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_MAVEN_PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise NotHereError(f"Maven did not have Kafka {VERSION} within {_MAVEN_PATIENCE_S:g} s") from None
        if done.returncode or not found.exists():
            raise NotHereError(f"Maven does not find Kafka {VERSION}: {(done.stdout.splitlines() or ['?'])[0]}")
        return found.read_text().strip()


class ApacheKafka:
    """The nodes as processes."""

    def __init__(
        self,
        directory: Path,
        jars: str,
        settings: Mapping[str, str],
        nodes: int = NODES,
        authority: Authority | None = None,
    ) -> None:
        self._directory = directory
        self._jars = jars
        self._authority = authority
        self._nodes = nodes
        self._base_port = free_base_port(nodes)
        self._settings = settings
        self._processes: dict[int, tuple[subprocess.Popen[bytes], IO[bytes]]] = {}

    @property
    def bootstrap_servers(self) -> str:
        """Bootstrap servers for clients."""
        return ",".join(f"{HOST}:{self._base_port + number}" for number in range(self._nodes))

    def start(self) -> None:
        """Format, start, and wait until each node sees all of them. NotHereError when they do not come up."""
        if self._authority is not None:
            self._authority.issue_missing({_CERTIFIED: (HOST,)})
        cluster_id = new_cluster_id()
        for node_id in range(1, self._nodes + 1):
            directory = self._directory / f"node-{node_id}"
            directory.mkdir(parents=True)
            properties = directory / "server.properties"
            properties.write_text("".join(f"{name}={value}\n" for name, value in self._properties(node_id).items()))
            with (directory / "log").open("ab") as said:
                tool = self._command("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(properties))
                subprocess.run(tool, stdout=said, stderr=said, check=True)
        self.start_formatted()
        self._wait_ready()

    def start_formatted(self) -> None:
        """Start all nodes. Returns at once."""
        for node_id in range(1, self._nodes + 1):
            self.start_node(node_id)

    def start_node(self, node_id: int) -> None:
        """Start one node again. Returns at once."""
        directory = self._directory / f"node-{node_id}"
        said = (directory / "log").open("ab")
        # The JVM does not see its parent die; the kernel tells it.
        jvm = self._command("kafka.Kafka", str(directory / "server.properties"))
        command = ["setpriv", "--pdeathsig", "KILL", *jvm]
        self._processes[node_id] = subprocess.Popen(command, stdout=said, stderr=said, cwd=directory), said

    @property
    def directory(self) -> Path:
        """Where everything of the nodes is."""
        return self._directory

    @property
    def pids(self) -> dict[int, int]:
        """Process ids of the nodes that are up, by node id."""
        return {node_id: process.pid for node_id, (process, _) in self._processes.items()}

    def client_port(self, node_id: int) -> int:
        """The port for clients of a node."""
        return self._base_port + node_id - 1

    @property
    def connecting(self) -> dict[str, Any]:
        """What clients of librdkafka connect with."""
        security = PLAIN
        if self._authority is not None:
            trusted = str(self._authority.certificate_file)
            security = Security(security_protocol=_TLS, ssl_truststore_location=trusted)
        return client_config("confluent", self.bootstrap_servers, security)

    def cpu_seconds(self) -> float:
        """CPU time that all nodes have used so far."""
        return sum(cpu_seconds(process.pid) for process, _ in self._processes.values())

    def end(self, node_id: int, number: signal.Signals = signal.SIGKILL) -> None:
        """Signal a node, and wait until it is gone."""
        process, said = self._processes.pop(node_id)
        process.send_signal(number)
        process.wait()
        said.close()

    def kill_all(self) -> None:
        """SIGKILL to all nodes."""
        for node_id in tuple(self._processes):
            self.end(node_id)

    def _command(self, *words: str) -> list[str]:
        return ["java", *JVM_OPTIONS, "-cp", self._jars, *words]

    def _properties(self, node_id: int) -> dict[str, str]:
        client, controller = (self._base_port + node_id - 1 + offset for offset in (0, 100))
        voters = ",".join(
            f"{number}@{HOST}:{self._base_port + number - 1 + 100}" for number in range(1, self._nodes + 1)
        )
        protocol = "PLAINTEXT" if self._authority is None else _TLS
        return {
            "node.id": str(node_id),
            "process.roles": "broker,controller",
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{protocol}://{HOST}:{client},CONTROLLER://{HOST}:{controller}",
            "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,{protocol}:{protocol}",
            "inter.broker.listener.name": protocol,
            **({} if self._authority is None else _stores(self._authority)),
            "log.dirs": str(self._directory / f"node-{node_id}" / "data"),
            **replication_defaults(self._nodes),
            **self._settings,
        }

    def _wait_ready(self) -> None:
        give_up_s = time.monotonic() + _READY_PATIENCE_S
        while time.monotonic() < give_up_s:
            for node_id, (process, _) in self._processes.items():
                if process.poll() is not None:
                    said = (self._directory / f"node-{node_id}" / "log").read_text(errors="replace").splitlines()
                    raise NotHereError(f"Apache Kafka ended with {process.returncode}: {' '.join(said[-3:])}")
            admin = AdminClient(self.connecting | {"log_level": 0})
            with suppress(KafkaException):
                if len(admin.list_topics(timeout=2).brokers) == self._nodes:
                    return
            time.sleep(0.2)
        raise NotHereError(f"Apache Kafka was not ready after {_READY_PATIENCE_S:g} s")


def _stores(authority: Authority) -> dict[str, str]:
    """The settings of a node that has the one certificate of all."""
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.file_of(_CERTIFIED)),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate_file),
    }


@contextmanager
def running_apache_kafka(
    jars: str, settings: Mapping[str, str], nodes: int = NODES, *, tls: bool = False
) -> Iterator[ApacheKafka]:
    """So many nodes, with `settings` besides; killed at the end. ``tls``: clients and brokers speak it to brokers."""
    with tempfile.TemporaryDirectory(prefix="minikafka-bench-") as directory:
        authority = Authority(Path(directory) / "security") if tls else None
        cluster = ApacheKafka(Path(directory), jars, settings, nodes, authority)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.kill_all()
