"""A lab, and its performance on a cluster of its own."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

from minikafka.chaos.lab.stage import Narrator, NotSeenError, Outcome, Stage
from minikafka.chaos.layout import ClusterError
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.chaos.ports import ReservedPorts
from minikafka.errors import KafkaError


class Lab(ABC):
    """A small experiment that shows one thing worth knowing: what is known before, and ``run``, which finds the rest.

    Texts are paragraphs. Whoever shows them breaks their lines.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    """What one sees, in a few words."""
    watch: ClassVar[tuple[str, ...]]
    """What to watch."""
    matters: ClassVar[str]
    """The settings that matter."""
    advice: ClassVar[tuple[str, ...]]
    """What to set in production."""

    voters: ClassVar[int] = 3
    more: ClassVar[int] = 0
    """Brokers without a vote."""
    settings: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Of all brokers."""

    def settings_of(self, node: int) -> Mapping[str, str]:
        """Of one broker."""
        return {}

    @abstractmethod
    def run(self, stage: Stage) -> None:
        """Break the cluster, and tell what is seen. NotSeenError, ClusterError, KafkaError: something did not come."""


def perform(lab: Lab, directory: Path, narrator: Narrator, now: Callable[[], float] = time.monotonic) -> Outcome:
    """Run a lab on a cluster in a new directory, whose nodes end with it. ClusterError: they do not start."""
    from confluent_kafka import KafkaException

    with _cluster(lab, directory) as cluster:
        stage = Stage(lab.name, cluster, narrator, now)
        count = lab.voters + lab.more
        cluster.start()
        for _ in range(lab.more):
            cluster.add_node()
        stage.say(
            f"{count} brokers are ready, {lab.voters} of which vote" if lab.more else f"{count} brokers are ready"
        )
        try:
            lab.run(stage)
        except (NotSeenError, ClusterError, KafkaError, KafkaException) as error:
            stage.expect(str(error) or type(error).__name__, False)
        stage.outcome.seconds = round(stage.seconds(), 1)
    return stage.outcome


@contextmanager
def _cluster(lab: Lab, directory: Path) -> Iterator[LocalCluster]:
    """The cluster of a lab, not started yet; at the end its nodes are killed, whatever state they are in."""
    ports = ReservedPorts(lab.voters + lab.more)
    try:
        cluster = LocalCluster.create(
            directory, brokers=lab.voters, base_port=ports.base_port, settings=dict(lab.settings), detached=False
        )
        cluster.layout.write_files()
        for node in cluster.node_ids:
            with cluster.layout.config_file(node).open("a") as file:
                file.writelines(f"{name}={value}\n" for name, value in lab.settings_of(node).items())
        try:
            yield cluster
        finally:
            cluster.kill_all()
    finally:
        ports.close()
