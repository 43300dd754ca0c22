"""Kafka Streams counts words while it and the cluster are broken, and the judges of the counts.

The program is ``WordCount.java``, compiled for each run with the libraries that Maven keeps on this machine.
"""

from __future__ import annotations

import random
import re
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cluster_applications import INPUT, OUTPUT, PARTITIONS, Applications
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from live_cluster import PATIENCE_S, eventually
from live_java import FAST, LIBRARIES_OF_CLIENTS, LIBRARIES_OF_CODECS, VERSION, compiled

from minikafka.chaos.local_cluster import LocalCluster

WANTED: Final = f"org.apache.kafka:kafka-streams:{VERSION}"
PROGRAM: Final = Path(__file__).with_name("WordCount.java")
WORDS: Final = [b"word-%d" % number for number in range(20)]
WORDS_OF_A_LINE: Final = 3

_LIBRARIES: Final = (
    f"org/apache/kafka/kafka-streams/{VERSION}/kafka-streams-{VERSION}.jar",
    *LIBRARIES_OF_CLIENTS,
    "org/rocksdb/rocksdbjni/*/*.jar",
    *LIBRARIES_OF_CODECS,
    *(f"com/fasterxml/jackson/core/jackson-{part}/*/*.jar" for part in ("annotations", "core", "databind")),
)


def compiled_word_count(directory: Path) -> str:
    """Compile the program into ``directory``. Returns its class path. Raises NotHereError."""
    return compiled(directory, PROGRAM, _LIBRARIES, WANTED)


class Counting(Applications):
    """So many instances of the application, each with a directory for its state."""

    group = "word-count"  # the application's id
    guarantee = "exactly_once_v2"
    standby_replicas = 0

    def __init__(self, cluster: LocalCluster, directory: Path, class_path: str, instances: int, seed: int) -> None:
        def command(servers: str, name: str) -> Sequence[str]:
            state = str(directory / f"{name}-state")
            how = (self.guarantee, str(self.standby_replicas))
            return ("java", *FAST, "-cp", class_path, "WordCount", servers, self.group, state, INPUT, OUTPUT, *how)

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

    def wait_until_counted(self, timeout_s: float) -> None:
        """All that was written."""

        def is_done() -> bool:
            self.tend()
            time.sleep(0.2)
            return self.committed() >= self.lines and self.counted() >= self.counts.total()

        eventually(is_done, f"{self.counts.total()} words to be counted", timeout_s)

    def finish(self, timeout_s: float = PATIENCE_S) -> None:
        """Wait until all words are counted, and judge: each word has had each count up to the last, once, in order."""
        self.wait_until_counted(timeout_s)
        eventually(lambda: self.hanging() == [], "the end of all transactions")
        self.stop()
        found: dict[bytes, list[int]] = defaultdict(list)
        for message in self.written():
            found[message.key()].append(int(message.value()))
        for word, count in self.counts.items():
            assert found.pop(word, []) == list(range(1, count + 1)), word
        assert not found


class CountingAtLeastOnce(Counting):
    """Without transactions, with a standby of each store on another instance."""

    guarantee = "at_least_once"
    standby_replicas = 1

    def transactional_ids(self) -> Sequence[str]:
        """Nobody's: a coordinator of transactions is another node like any."""
        return [self.group]

    def finish(self, timeout_s: float = PATIENCE_S) -> None:
        """Wait until all words are counted, and judge: no word is missing, what was lost with an instance counts twice.

        What was counted is purged from the topic between the two halves of the application (DeleteRecords).
        """
        self.wait_until_counted(timeout_s)

        def is_purged() -> bool:
            """Streams purges when it commits, at most once a second: after the last words it may not."""
            if self.unpurged() > 0:
                self.write(1)
                self.wait_until_counted(timeout_s)
                return False
            return True

        eventually(is_purged, f"{self.repartition_topic} to be purged", timeout_s)
        eventually(lambda: self.lowest() == {} or self.tend(), "the last count of each word", timeout_s)
        self.stop()
        assert self.lowest() == {}

    @property
    def repartition_topic(self) -> str:
        """Words on their way to the instances that count them."""
        return f"{self.group}-words-repartition"

    def lowest(self) -> dict[bytes, int]:
        """Of the words whose last count is too low: how much."""
        last = {message.key(): int(message.value()) for message in self.written()}
        return {word: count - last.get(word, 0) for word, count in self.counts.items() if last.get(word, 0) < count}

    def unpurged(self) -> int:
        """Records that were counted and are still there, or all while nothing was purged."""
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap_servers, "log_level": 0})
        partitions = [TopicPartition(self.repartition_topic, number) for number in range(PARTITIONS)]
        first, end = (
            sum(each.result(PATIENCE_S).offset for each in admin.list_offsets(dict.fromkeys(partitions, spec)).values())
            for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
        )
        assert end >= self.counts.total()
        return end - first

    def has_standbys(self) -> bool:
        """Each instance that was started had the state of another at hand."""
        said = [self._said(name).read_text() for name in self.names]
        return all(re.search(r"standby tasks: [1-9]", each) for each in said)
