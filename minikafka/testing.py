"""A cluster for a test of your own application.

``with temporary_cluster() as cluster:`` starts three brokers in a temporary directory, on free ports. ``cluster`` is a
:class:`~minikafka.chaos.local_cluster.LocalCluster`: ``bootstrap_servers``, ``leader_of(topic)``, ``kill(node)``,
``pause``, ``resume``, ``stop_node``, ``restart``, ``kill_all``, ``start``.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.chaos.ports import free_base_port


@contextmanager
def temporary_cluster(brokers: int = 3, settings: Mapping[str, str] | None = None) -> Iterator[LocalCluster]:
    """A cluster that is ready; ``settings`` by Kafka's names. ClusterError when it does not start.

    Its brokers end with the block, or with this process, even if that is killed. Its directory is removed, but kept
    after an error: a note to the exception names it, for the brokers' logs.
    """
    directory = Path(tempfile.mkdtemp(prefix="minikafka-"))
    cluster = LocalCluster.create(
        directory, brokers=brokers, base_port=free_base_port(brokers), settings=dict(settings or {}), detached=False
    )
    try:
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.kill_all()
    except BaseException as error:
        error.add_note(f"the brokers' logs: {directory}/node-*/broker.log")
        raise
    shutil.rmtree(directory)
