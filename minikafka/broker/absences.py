"""Brokers that have just died, in answers to Metadata, so that clients find the next leaders soon.

A failover takes the cluster a few hundredths of a second. With plain answers from committed metadata, librdkafka (2.16)
takes up to two seconds, for two reasons:

* It asks for metadata within a millisecond after its connection broke. The dead broker is still a leader then;
  librdkafka believes that, and asks again after a timer of one second. So this node probes leaders before it names them
  (its own connections may not have broken yet). If one is dead, the answer waits until the controller has elected
  another (:meth:`wait_until_decided`).
* If one answer moves a partition away from a broker and also no longer lists that broker, librdkafka forgets the
  partition until the timer fires again. So a fenced broker is listed in one more answer on each connection
  (:meth:`listed`). Not in more: a client would keep trying to connect, less and less often, and reconnect late.

Only metadata for clients depends on this. A paused or disconnected broker is not dead: its port does not refuse.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, NamedTuple
from weakref import WeakSet

from minikafka.metadata.delta import MetadataDelta
from minikafka.metadata.image import EMPTY_IMAGE, BrokerImage, MetadataImage, TopicImage
from minikafka.model import NO_NODE
from minikafka.net.connection import Connection

LOOK_TIMEOUT_S: Final = 0.2  # a broker without an answer by then is silent, not dead
DECISION_TIMEOUT_S: Final = 1.0  # a client that was answered too early idles for as long
LISTED_AFTER_FENCING_S: Final = 2.0


class _Departure(NamedTuple):
    fenced_at_s: float
    told: WeakSet[Connection]  # where the broker was listed since


class Absences:
    """Subscriber to metadata, and to what is known of other nodes' processes."""

    def __init__(self, node_id: int, look: Callable[[int], Awaitable[bool]]) -> None:
        self._node_id = node_id
        self._look = look
        self._loop = asyncio.get_running_loop()
        self._image: MetadataImage = EMPTY_IMAGE
        self._departures: dict[int, _Departure] = {}
        self._undecided: dict[int, asyncio.Event] = {}  # by broker that vanished; set when its fate is known
        self._given_up: dict[int, None] = {}  # brokers that vanished, and nobody decided; nothing waits for them again

    async def wait_until_decided(self, topics: Sequence[TopicImage] | None) -> None:
        """Return once no leader of these topics is dead without a successor; at once when this node leads them all.
        None: of all topics, any broker may lead some."""
        found = self._image.brokers if topics is None else _leaders(topics)
        leaders = [leader for leader in dict.fromkeys(found) if leader not in (self._node_id, NO_NODE)]
        await self._look_at([leader for leader in leaders if self._is_worth_a_look(leader)])
        for leader in leaders:
            if leader in self._undecided:
                await self._undecided[leader].wait()

    def _is_worth_a_look(self, broker_id: int) -> bool:
        return self._image.is_live(broker_id) and broker_id not in self._undecided and broker_id not in self._given_up

    async def _look_at(self, broker_ids: Sequence[int]) -> None:
        if not broker_ids:
            return
        try:
            async with asyncio.timeout(LOOK_TIMEOUT_S):
                await asyncio.gather(*(self._look(broker_id) for broker_id in broker_ids))
        except TimeoutError:
            pass

    def listed(self, connection: Connection) -> list[BrokerImage]:
        """The brokers for an answer on this connection: see the module."""
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

    def on_gone(self, broker_id: int) -> None:
        """A broker's process is gone. The controller notices it, too, and will soon elect new leaders."""
        if self._is_worth_a_look(broker_id):
            decided = self._undecided[broker_id] = asyncio.Event()
            self._loop.call_later(DECISION_TIMEOUT_S, self._give_up, broker_id, decided)

    def _give_up(self, broker_id: int, decided: asyncio.Event) -> None:
        """The controller takes too long: answer with the committed metadata."""
        if self._undecided.get(broker_id) is decided:
            del self._undecided[broker_id]
            self._given_up[broker_id] = None
            decided.set()

    def on_metadata(self, delta: MetadataDelta) -> None:
        """The controller fenced or registered brokers. Ignored before this node is live: the news is old then."""
        self._image = delta.after
        for broker_id in delta.brokers:
            was_live, is_live = delta.before.is_live(broker_id), delta.after.is_live(broker_id)
            self._given_up.pop(broker_id, None)
            if broker_id in self._undecided:
                self._undecided.pop(broker_id).set()
            if is_live:
                self._departures.pop(broker_id, None)
            elif was_live and delta.before.is_live(self._node_id):
                self._departures[broker_id] = _Departure(self._loop.time(), WeakSet())


def _leaders(topics: Sequence[TopicImage]) -> Iterator[int]:
    return (partition.leader for topic in topics for partition in topic.partitions.values())
