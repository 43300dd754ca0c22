"""A trial of a cluster that is there already, of any make: load and judgement, while somebody else breaks it."""

from __future__ import annotations

import asyncio
from typing import Final

from minikafka.chaos.history import History
from minikafka.chaos.layout import ClusterError
from minikafka.chaos.probe import ClusterView, Entrance, probe
from minikafka.chaos.rounds import afterwards
from minikafka.chaos.rounds.loads import Clients
from minikafka.chaos.rounds.observer import TIMEOUT_S
from minikafka.chaos.rounds.trial import Options, Say, Trial
from minikafka.client import Admin
from minikafka.client.connections import parse_bootstrap_servers

REPLICAS_MAX: Final = 3


class Visit(Trial):
    """``options.servers`` names it. Topics of the load must not be there yet, and stay."""

    def __init__(self, options: Options, history: History, say: Say, clients: Clients) -> None:
        assert options.servers is not None
        self._entrance = Entrance(options.security.context(), options.security.sasl())
        self._endpoints = parse_bootstrap_servers(options.servers)
        super().__init__(options, options.servers, self._look, history, say, clients)

    def prepare(self) -> None:
        asyncio.run(self._connect())
        views = [view for view in self._look() if view is not None]
        if not views:
            raise ClusterError(f"none of {self.options.servers} answers")
        left = {each.topic for view in views for each in view.partitions}.intersection(self.load.topics)
        if left:
            names = " ".join(sorted(left))
            raise ClusterError(
                f"there is {names} already, perhaps of an earlier run; delete it (minikafka topic delete {names}), as "
                "each run reads all that its topics hold"
            )
        replicas = min(REPLICAS_MAX, len(views[0].broker_ids))
        self.load.create_topics(replicas, max(1, replicas - 1))
        self.say(f"{len(views[0].broker_ids)} brokers; break them as you like for {self.options.duration_s:g} s")

    async def _connect(self) -> None:
        """A probe does not say why it has no answer; a client does. Raises KafkaError."""
        async with Admin(self.load.cluster.servers, security=self.load.cluster.security):
            pass

    def disturb(self) -> None:
        self.load.wait(self.options.duration_s)

    def mend(self) -> None:
        self.say("the cluster must be whole from now on")

    def look_afterwards(self) -> None:
        self.findings.append(afterwards.one_leader_per_epoch(self.observer.leaders))

    def settings(self) -> dict[str, str]:
        return {"bootstrap.servers": self.options.servers or ""}

    def _look(self) -> list[ClusterView | None]:
        return [probe(endpoint, TIMEOUT_S * 2, self._entrance) for endpoint in self._endpoints]
