"""Applications that copy a topic in transactions while they and the cluster are broken, and the judge of the copy."""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path
from typing import Final

from cluster_applications import INPUT, OUTPUT, Applications, Command
from live_cluster import PATIENCE_S, eventually

from minikafka.chaos.local_cluster import LocalCluster

GROUP: Final = "copiers"
COPIERS: Final = {
    client: Path(__file__).with_name(f"{name}_copier.py")
    for client, name in (
        ("confluent-kafka", "transactional"),
        ("aiokafka", "aiokafka"),
        ("kafka-python", "kafka_python"),
    )
}


def python_copier(client: str, records: int, abort_every: int) -> Command:
    """One of COPIERS."""
    return lambda servers, transactional_id: (
        *(sys.executable, str(COPIERS[client]), servers, INPUT, OUTPUT, GROUP, transactional_id),
        *(str(records), str(abort_every)),
    )


def java_copier(class_path: str, records: int) -> Command:
    """Kafka's own, of its tools (version 4.3): it speaks transaction version 2, and aborts at random."""
    return lambda servers, transactional_id: (
        *("java", "-Xmx256m", "-cp", class_path, "org.apache.kafka.tools.TransactionalMessageCopier"),
        *("--broker-list", servers, "--input-topic", INPUT, "--input-partition", "0", "--output-topic", OUTPUT),
        *("--consumer-group", GROUP, "--group-mode", "--use-group-metadata", "--transactional-id", transactional_id),
        *("--transaction-size", str(records), "--transaction-timeout", "20000", "--enable-random-aborts"),
    )


class Copying(Applications):
    """``records`` are written to the input; then that many copiers, named by their transactional ids, copy them."""

    group = GROUP

    def __init__(self, cluster: LocalCluster, directory: Path, records: int, command: Command, copiers: int) -> None:
        super().__init__(cluster, directory, [f"copier-{number}" for number in range(copiers)], command)
        self.records = records
        self.feed(b"%d" % number for number in range(records))
        self.tend()

    def wait_for_more(self) -> None:
        """Wait until some more records than now are copied."""
        enough = min(self.records, max(0, self.committed()) + 1)
        eventually(lambda: self.committed() >= enough, "another transaction")

    def finish(self, timeout_s: float = PATIENCE_S) -> None:
        """Wait until all is copied, and judge: each record once, nothing else, and no transaction left open."""

        def is_done() -> bool:
            self.tend()
            time.sleep(0.2)
            return self.committed() == self.records

        eventually(is_done, f"{self.records} records to be copied", timeout_s)
        eventually(lambda: self.hanging() == [], "the end of all transactions")
        self.stop()
        found = Counter(message.value() for message in self.written())
        lost = self.records - sum(b"%d" % number in found for number in range(self.records))
        doubled = [value for value, count in found.items() if count > 1]
        assert (lost, doubled[:5], len(found)) == (0, [], self.records), (lost, len(doubled), len(found))
