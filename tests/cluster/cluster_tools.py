"""Kafka's own command-line tools against a cluster, all in one JVM: ``tools("topics", "--list")``."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from select import select
from typing import Final

from live_cluster import wait_until_known
from live_java import FAST, VERSION, compiled

from minikafka.chaos.local_cluster import LocalCluster

PROGRAM: Final = Path(__file__).with_name("KafkaTools.java")
ARTIFACTS: Final = tuple(f"org.apache.kafka:{name}:{VERSION}" for name in ("kafka-tools", "kafka_2.13"))
PATIENCE_S: Final = 90.0
SERVERS: Final = "--bootstrap-server"
_KAFKA: Final = "org/apache/kafka"
_PARTS: Final = (
    *("kafka-tools", "kafka-clients", "kafka-server", "kafka-server-common", "kafka-metadata", "kafka-raft"),
    *("kafka-storage", "kafka-storage-api", "kafka-group-coordinator", "kafka-group-coordinator-api"),
    *("kafka-coordinator-common", "kafka-transaction-coordinator", "kafka-share-coordinator", "kafka-tools-api"),
    "kafka_2.13",
)
LIBRARIES: Final = (
    *(f"{_KAFKA}/{part}/{VERSION}/{part}-{VERSION}.jar" for part in _PARTS),
    "org/slf4j/slf4j-api/1.7*/*.jar",
    "net/sf/jopt-simple/jopt-simple/*/*.jar",
    "net/sourceforge/argparse4j/argparse4j/*/*.jar",
    "org/scala-lang/scala-library/2.13*/*.jar",
    "com/typesafe/scala-logging/scala-logging_2.13/*/*.jar",
    "commons-validator/commons-validator/*/*.jar",
    "com/google/re2j/re2j/*/*.jar",
    "com/yammer/metrics/metrics-core/*/*.jar",
    "org/apache/logging/log4j/log4j-api/*/*.jar",
    *(f"com/fasterxml/jackson/core/jackson-{part}/*/*.jar" for part in ("annotations", "core", "databind")),
    "com/fasterxml/jackson/datatype/jackson-datatype-jdk8/*/*.jar",
    "com/fasterxml/jackson/dataformat/jackson-dataformat-csv/*/*.jar",
)
_TOOLS: Final = "org.apache.kafka.tools"
CLASSES: Final = {
    "acls": f"{_TOOLS}.AclCommand",
    "broker-api-versions": f"{_TOOLS}.BrokerApiVersionsCommand",
    "client-metrics": f"{_TOOLS}.ClientMetricsCommand",
    "cluster": f"{_TOOLS}.ClusterTool",
    "configs": "kafka.admin.ConfigCommand",
    "console-consumer": f"{_TOOLS}.consumer.ConsoleConsumer",
    "console-producer": f"{_TOOLS}.ConsoleProducer",
    "consumer-groups": f"{_TOOLS}.consumer.group.ConsumerGroupCommand",
    "consumer-perf-test": f"{_TOOLS}.ConsumerPerformance",
    "delegation-tokens": f"{_TOOLS}.DelegationTokenCommand",
    "delete-records": f"{_TOOLS}.DeleteRecordsCommand",
    "dump-log": f"{_TOOLS}.DumpLogSegments",
    "e2e-latency": f"{_TOOLS}.EndToEndLatency",
    "features": f"{_TOOLS}.FeatureCommand",
    "get-offsets": f"{_TOOLS}.GetOffsetShell",
    "groups": f"{_TOOLS}.GroupsCommand",
    "leader-election": f"{_TOOLS}.LeaderElectionCommand",
    "log-dirs": f"{_TOOLS}.LogDirsCommand",
    "metadata-quorum": f"{_TOOLS}.MetadataQuorumCommand",
    "producer-perf-test": f"{_TOOLS}.ProducerPerformance",
    "reassign-partitions": f"{_TOOLS}.reassign.ReassignPartitionsCommand",
    "streams-application-reset": f"{_TOOLS}.StreamsResetter",
    "topics": f"{_TOOLS}.TopicCommand",
    "transactions": f"{_TOOLS}.TransactionsCommand",
    "verifiable-consumer": f"{_TOOLS}.VerifiableConsumer",
    "verifiable-producer": f"{_TOOLS}.VerifiableProducer",
}
"""By the names of their scripts, ``kafka-NAME.sh``."""


class Tools:
    """A JVM that runs them. ``--bootstrap-server`` goes first, unless a call says ``at=None``."""

    def __init__(self, process: subprocess.Popen[bytes], servers: str) -> None:
        self.servers = servers
        self._process = process

    def __call__(self, tool: str, *arguments: str, given: str = "", at: str | None = SERVERS) -> str:
        """What a tool prints; it must succeed."""
        status, said, wrong = self.run(tool, *arguments, given=given, at=at)
        assert status == 0, f"{tool} {' '.join(arguments)}: {status}\n{said}\n{wrong}"
        return said

    def refuses(self, tool: str, *arguments: str, at: str | None = SERVERS) -> str:
        """The same for what must fail: all that is printed."""
        status, said, wrong = self.run(tool, *arguments, at=at)
        assert status != 0, f"{tool} {' '.join(arguments)}:\n{said}"
        return said + wrong

    def run(self, tool: str, *arguments: str, given: str = "", at: str | None = SERVERS) -> tuple[int, str, str]:
        """Exit status, standard output and standard error, whatever they are."""
        where = () if at is None else (at, self.servers)
        words = (CLASSES[tool], given.replace("\n", "\\n"), *where, *arguments)
        to, answers = self._process.stdin, self._process.stdout
        assert to is not None
        assert answers is not None
        to.write("\t".join(words).encode() + b"\n")
        to.flush()
        assert select([answers], [], [], PATIENCE_S)[0], f"{tool} {' '.join(arguments)} does not end"
        head = answers.readline().split()
        assert head, f"{tool} {' '.join(arguments)} ended the JVM"
        status, said, wrong = map(int, head)
        return status, answers.read(said).decode(), answers.read(wrong).decode()


@contextmanager
def running_tools(directory: Path, servers: str) -> Iterator[Tools]:
    """Compiled into a directory, whose file ``java.log`` has what the JVM complains of. Raises NotHereError."""
    class_path = compiled(directory, PROGRAM, LIBRARIES, *ARTIFACTS)
    opens = ("--add-opens", "java.base/java.lang=ALL-UNNAMED")
    with (directory / "java.log").open("wb") as complaints:
        process = subprocess.Popen(
            ("java", *FAST, *opens, "-cp", class_path, "KafkaTools"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
        )
        try:
            yield Tools(process, servers)
        finally:
            process.kill()
            process.wait()


def create(tools: Tools, cluster: LocalCluster, name: str, *assignment: str) -> None:
    """One partition for each list of replicas (``1:2:3``)."""
    tools("topics", "--create", "--topic", name, "--replica-assignment", ",".join(assignment))
    wait_until_known(cluster, name, len(assignment))


def rows(table: str) -> list[list[str]]:
    """The words of each line of a table, but not its headings."""
    return [line.split() for line in table.strip().splitlines() if line][1:]


def lines(text: str) -> list[str]:
    return sorted(text.split())


def found(pattern: str, text: str) -> str:
    """What the group of a pattern matches."""
    match = re.search(pattern, text)
    assert match, text
    return match[1]
