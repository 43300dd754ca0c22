"""Kafka Streams counts words in transactions while it and the cluster are broken, and the judge of the counts.

The program is ``WordCount.java``, compiled for each run with the libraries that Maven keeps on this machine.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cluster_applications import INPUT, OUTPUT, Applications
from live_cluster import PATIENCE_S, eventually

from minikafka.chaos.local_cluster import LocalCluster

VERSION: Final = "4.3.1"
WANTED: Final = f"org.apache.kafka:kafka-streams:{VERSION}"
PROGRAM: Final = Path(__file__).with_name("WordCount.java")
FAST: Final = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
WORDS: Final = [b"word-%d" % number for number in range(20)]
WORDS_OF_A_LINE: Final = 3

_REPOSITORY: Final = Path.home() / ".m2" / "repository"
LIBRARIES_OF_CLIENTS: Final = (
    f"org/apache/kafka/kafka-clients/{VERSION}/kafka-clients-{VERSION}.jar",
    "org/slf4j/slf4j-api/1.7*/*.jar",
)
_LIBRARIES: Final = (
    f"org/apache/kafka/kafka-streams/{VERSION}/kafka-streams-{VERSION}.jar",
    *LIBRARIES_OF_CLIENTS,
    "org/rocksdb/rocksdbjni/*/*.jar",
    *(f"{codec}/*/*.jar" for codec in ("at/yawk/lz4/lz4-java", "org/xerial/snappy/snappy-java")),
    *(f"com/fasterxml/jackson/core/jackson-{part}/*/*.jar" for part in ("annotations", "core", "databind")),
)


class NotHereError(Exception):
    """Java or a library is not on this machine."""


def compiled(
    directory: Path, program: Path = PROGRAM, wanted: Sequence[str] = _LIBRARIES, artifacts: Sequence[str] = (WANTED,)
) -> str:
    """Compile a program into ``directory``. Returns its class path. Raises NotHereError, and says what to install:
    Java, or the ``artifacts`` with all that they need."""
    if not shutil.which("javac"):
        raise NotHereError("javac is not installed; get it with: apt-get install openjdk-17-jdk-headless (Debian)")
    found = [sorted(_REPOSITORY.glob(pattern), key=_version) for pattern in wanted]
    for pattern, jars in zip(wanted, found, strict=True):
        if not jars:
            commands = " && ".join(f"mvn dependency:get -Dartifact={artifact}" for artifact in artifacts)
            raise NotHereError(f"{_REPOSITORY / pattern} not found; get it with: {commands}")
    libraries = [str(jars[-1]) for jars in found]
    fast = ("-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-proc:none", "-implicit:none")
    class_path = ":".join([str(directory), *libraries])
    subprocess.run(("javac", *fast, "-cp", class_path, "-d", str(directory), str(program)), check=True)
    return class_path


def _version(jar: Path) -> Sequence[int]:
    """Of the directory that Maven keeps it in: 1.10.1 is newer than 1.2.0."""
    return [int(number) for number in re.findall(r"\d+", jar.parent.name)]


class Counting(Applications):
    """So many instances of the application, each with a directory for its state."""

    group = "word-count"  # the application's id

    def __init__(self, cluster: LocalCluster, directory: Path, class_path: str, instances: int, seed: int) -> None:
        def command(servers: str, name: str) -> Sequence[str]:
            state = str(directory / f"{name}-state")
            return ("java", *FAST, "-cp", class_path, "WordCount", servers, self.group, state, INPUT, OUTPUT)

        super().__init__(cluster, directory, [f"counter-{number}" for number in range(instances)], command)
        self.lines = 0
        self.counts: Counter[bytes] = Counter()
        self._random = random.Random(seed)

    def write(self, lines: int) -> None:
        """So many more lines of random words."""
        written = [self._random.choices(WORDS, k=WORDS_OF_A_LINE) for _ in range(lines)]
        self.feed(map(b" ".join, written))
        self.lines += lines
        for line in written:
            self.counts.update(line)

    def transactional_ids(self) -> Sequence[str]:
        """Of each instance the last: Streams makes them up at each start, like the names of its producers."""
        found = {
            name: f"{client}-{thread}"
            for name in self.names
            for client, thread in re.findall(r"([\w.-]+)-StreamThread-(\d+)-producer", self._said(name).read_text())
        }
        return list(found.values())

    def kill(self, name: str) -> None:
        """SIGKILL to one. Every other time its state is lost, too: it is in the cluster."""
        super().kill(name)
        if self._random.random() < 0.5:
            self.forget(name)

    def forget(self, name: str) -> None:
        """Delete the state of one that does not run."""
        shutil.rmtree(self._directory / f"{name}-state", ignore_errors=True)

    def wait_for_more(self) -> None:
        """Wait until some more counts than now are written, or all."""
        enough = min(self.counts.total(), self.counted() + 1)
        eventually(lambda: self.counted() >= enough, "another count")

    def counted(self) -> int:
        """The number of counts that are written."""
        return sum(1 for _ in self.written())

    def finish(self, timeout_s: float = PATIENCE_S) -> None:
        """Wait until all words are counted, and judge: each word has had each count up to the last, once, in order."""

        def is_done() -> bool:
            self.tend()
            time.sleep(0.2)
            return self.committed() >= self.lines and self.counted() >= self.counts.total()

        eventually(is_done, f"{self.counts.total()} words to be counted", timeout_s)
        eventually(lambda: self.hanging() == [], "the end of all transactions")
        self.stop()
        found: dict[bytes, list[int]] = defaultdict(list)
        for message in self.written():
            found[message.key()].append(int(message.value()))
        for word, count in self.counts.items():
            assert found.pop(word, []) == list(range(1, count + 1)), word
        assert not found
