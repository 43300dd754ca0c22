"""A cluster for a test of your own application.

``with temporary_cluster() as cluster:`` starts three brokers in a temporary directory, on free ports. ``cluster`` is a
:class:`~minikafka.chaos.local_cluster.LocalCluster`: ``bootstrap_servers``; ``leader_of(topic)``,
``coordinator_of(group)`` and ``controller()``, which are ids of nodes; ``kill(node)``, ``pause``, ``resume``,
``stop_node``, ``restart``, ``kill_all``, ``start``; ``wait_in_sync()``.

A client notices a paused node only when a request to it times out: librdkafka after ``socket.timeout.ms`` (60 s), so
set that to some seconds in such a test.
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
def temporary_cluster(
    brokers: int = 3,
    settings: Mapping[str, str | int | float] | None = None,
    directory: str | Path | None = None,
) -> Iterator[LocalCluster]:
    """A cluster that is ready; ``settings`` by Kafka's names. ClusterError when it does not start.

    Its brokers end with the block, or with this process, even if that is killed. Its files are removed, except after
    an error in the block: a note to the exception names the brokers' logs. In ``directory`` (empty or missing) they
    stay in any case: for a fixture, which does not see the errors of its tests.
    """
    texts = {name: _text(value) for name, value in (settings or {}).items()}
    chosen = Path(directory or tempfile.mkdtemp(prefix="minikafka-"))
    try:
        cluster = LocalCluster.create(
            chosen, brokers=brokers, base_port=free_base_port(brokers), settings=texts, detached=False
        )
        cluster.check()
    except BaseException:
        if directory is None:
            shutil.rmtree(chosen)  # nothing ran, so there are no logs
        raise
    try:
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.kill_all()
    except BaseException as error:
        error.add_note(f"the brokers' logs: {chosen}/node-*/broker.log")
        raise
    if directory is None:
        shutil.rmtree(chosen)


def _text(value: str | int | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
