"""Scrapes of nodes that die, lose their quorum, and stop."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from live_cluster import StartCluster, controller_of, eventually, http_get, metrics_url
from live_wire import Wire

from minikafka.chaos.local_cluster import LocalCluster

REPLICAS = "kafka_server_replicamanager_"
CONTROLLER = "kafka_controller_kafkacontroller_"


def values(text: str) -> dict[str, float]:
    """The samples of a scrape."""
    pairs = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}


class Scraper:
    """Scrapes some nodes again and again; what of it failed, by node."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._urls = {node_id: metrics_url(cluster, node_id) for node_id in cluster.node_ids}
        self._stop = threading.Event()
        self.failures: dict[int, list[str]] = {node_id: [] for node_id in cluster.node_ids}

    def get(self, node_id: int, path: str = "/metrics") -> str:
        status, text = http_get(self._urls[node_id], path)
        assert path != "/metrics" or (status == 200 and text.endswith("\n") and "minikafka_build_info" in text), text
        return text

    def sum(self, name: str, *node_ids: int) -> float:
        """Of one metric over some nodes."""
        return sum(values(self.get(node_id))[name] for node_id in node_ids)

    @contextmanager
    def running(self) -> Iterator[None]:
        threads = [threading.Thread(target=self._scrape, args=(node_id,)) for node_id in self._urls]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()

    def _scrape(self, node_id: int) -> None:
        while not self._stop.wait(0.05):
            try:
                self.get(node_id)
            except (OSError, AssertionError) as error:
                self.failures[node_id].append(repr(error))


def test_scrapes_go_on_through_a_failover_and_a_stop(start_cluster: StartCluster) -> None:
    cluster = start_cluster(3, metrics_listener="127.0.0.1:0", broker_session_timeout_ms="2000")
    victim = controller_of(cluster)
    survivors = [node_id for node_id in cluster.node_ids if node_id != victim]
    with Wire(cluster.layout.client_port(victim)) as wire:
        wire.create_topic("orders", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    cluster.wait_in_sync()
    scraper = Scraper(cluster)
    eventually(lambda: scraper.sum(REPLICAS + "leadercount", *cluster.node_ids) == 3, "three leaders")
    with scraper.running():
        cluster.kill(victim)
        eventually(lambda: scraper.sum(CONTROLLER + "fencedbrokercount", *survivors) == 1, "the node to be fenced")
        eventually(lambda: scraper.sum(REPLICAS + "underreplicatedpartitions", *survivors) == 3, "the loss to show")
        assert scraper.sum(REPLICAS + "isrshrinks_total", *survivors) == 3
        assert scraper.sum(CONTROLLER + "activecontrollercount", *survivors) == 1
        assert not any(scraper.failures[node_id] for node_id in survivors)

        cluster.stop_node(survivors[0])  # the last one has no quorum then
        last = survivors[1]
        eventually(lambda: "has not answered" in scraper.get(last, "/readyz"), "the node to be not ready")
        assert scraper.get(last, "/healthz") == "ok\n"
        eventually(lambda: scraper.sum(CONTROLLER + "activecontrollercount", last) == 0, "no controller")
        assert not scraper.failures[last]
        cluster.stop_node(last)
