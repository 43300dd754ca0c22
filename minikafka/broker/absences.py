"""Brokers that have just gone, as clients should hear of them, so that they find the next leaders soon.

A failover takes the cluster a few hundredths of a second. Told what is committed and nothing else, librdkafka (2.16)
makes up to two seconds of it:

* It asks for metadata within a millisecond after its connection broke. The broker that died is a leader still then;
  librdkafka believes it, and looks again when a timer of one second fires. So an answer that names a leader waits
  while that broker has vanished and the controller has not decided what follows (:meth:`wait_until_decided`).
* It forgets partitions that move away from a broker in the very answer that lists the broker no more, until that timer
  fires again. So a broker that was fenced is listed in one more answer on each connection (:meth:`listed`). In one
  only: a client that keeps it goes on trying to connect, ever less often, and is slow to when it is back.

Nothing but metadata for clients rests on this. A broker that is paused or cut off has not vanished: nothing broke.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, NamedTuple
from weakref import WeakSet

from minikafka.config.node import REPLICATION
from minikafka.metadata.delta import MetadataDelta
from minikafka.metadata.image import EMPTY_IMAGE, BrokerImage, MetadataImage, TopicImage
from minikafka.model import NO_NODE, Endpoint
from minikafka.net.connection import Connection
from minikafka.net.tasks import TaskOwner

NOTICE_S: Final = 0.005  # a client's connection to a dying process may break that much before this node's does
PROBES_S: Final = (0.0, 0.01, 0.03)  # a process that is being killed may hold its port a moment
DECISION_TIMEOUT_S: Final = 0.5
LISTED_AFTER_FENCING_S: Final = 2.0


class _Departure(NamedTuple):
    fenced_at_s: float
    told: WeakSet[Connection]  # where the broker was listed since


class Absences:
    """Subscriber to metadata, told by whoever loses a connection to a broker."""

    def __init__(self, node_id: int, tasks: TaskOwner, is_refused: Callable[[Endpoint], Awaitable[bool]]) -> None:
        self._node_id = node_id
        self._tasks = tasks
        self._is_refused = is_refused
        self._loop = asyncio.get_running_loop()
        self._image: MetadataImage = EMPTY_IMAGE
        self._departures: dict[int, _Departure] = {}
        self._undecided: dict[int, asyncio.Event] = {}  # by broker that vanished; set when its fate is known

    async def wait_until_decided(self, topics: Sequence[TopicImage]) -> None:
        """Return when no leader of these topics has vanished whose fate is open; at once when this node leads all."""
        if all(leader in (self._node_id, NO_NODE) for leader in _leaders(topics)):
            return
        await asyncio.sleep(NOTICE_S)
        if self._undecided:
            for leader in dict.fromkeys(_leaders(topics)):
                if leader in self._undecided:
                    await self._undecided[leader].wait()

    def listed(self, connection: Connection) -> list[BrokerImage]:
        """The brokers that an answer on this connection is to list: see the module."""
        if not self._departures:
            return self._image.live_brokers()
        brokers = sorted(self._image.brokers.items())
        return [broker for id_, broker in brokers if broker.is_live or self._is_listed_once_more(id_, connection)]

    def _is_listed_once_more(self, broker_id: int, connection: Connection) -> bool:
        departure = self._departures.get(broker_id)
        if departure is None or connection.opened_at_s > departure.fenced_at_s or connection in departure.told:
            return False
        departure.told.add(connection)
        return self._loop.time() - departure.fenced_at_s < LISTED_AFTER_FENCING_S

    def on_connection_lost(self, broker_id: int) -> None:
        """A connection to a broker broke: it is taken to have vanished until it is looked at."""
        if self._image.is_live(broker_id) and broker_id not in self._undecided:
            decided = self._undecided[broker_id] = asyncio.Event()
            self._tasks.start(self._look_at(self._image.brokers[broker_id], decided), f"absence of {broker_id}")

    def on_metadata(self, delta: MetadataDelta) -> None:
        """The controller fenced or registered brokers. Before this node is live, what it learns is long past."""
        self._image = delta.after
        for broker_id in delta.brokers:
            was_live, is_live = delta.before.is_live(broker_id), delta.after.is_live(broker_id)
            if broker_id in self._undecided:
                self._undecided[broker_id].set()
            if is_live:
                self._departures.pop(broker_id, None)
            elif was_live and delta.before.is_live(self._node_id):
                self._departures[broker_id] = _Departure(self._loop.time(), WeakSet())

    async def _look_at(self, broker: BrokerImage, decided: asyncio.Event) -> None:
        try:
            if await self._has_vanished(broker):
                async with asyncio.timeout(DECISION_TIMEOUT_S):
                    await decided.wait()
        except TimeoutError:
            pass  # the quorum takes longer; what is committed will have to do
        finally:
            del self._undecided[broker.broker_id]
            decided.set()

    async def _has_vanished(self, broker: BrokerImage) -> bool:
        for delay_s in PROBES_S:
            await asyncio.sleep(delay_s)
            if REPLICATION in broker.listeners and await self._is_refused(broker.listeners[REPLICATION]):
                return True
        return False


def _leaders(topics: Sequence[TopicImage]) -> Iterator[int]:
    return (partition.leader for topic in topics for partition in topic.partitions.values())
