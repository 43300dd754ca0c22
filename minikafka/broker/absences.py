"""Brokers that have just gone, as clients should hear of them, so that they find the next leaders soon.

Told what is committed and nothing else, librdkafka (2.16, and it is not alone) loses up to two seconds over a failover
that takes the cluster a few hundredths of one:

* It asks for metadata a millisecond after its connection breaks. A broker that died is a leader still then; the client
  believes it and looks again a second later. So while a broker has vanished and the controller has not decided what
  follows from it, answers to metadata requests wait (:meth:`wait_until_decided`), for a moment at most.
* It forgets partitions that move away from a broker in the very answer that does not list the broker any more, until
  its next look. So a broker that was fenced is listed for a little longer (:meth:`listed`).

Nothing but metadata for clients rests on this. A broker that is paused or cut off has not vanished: nothing broke.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from minikafka.broker.clock import Clock
from minikafka.config.node import CLIENT
from minikafka.metadata.delta import MetadataDelta
from minikafka.metadata.image import EMPTY_IMAGE, BrokerImage, MetadataImage
from minikafka.model import Endpoint
from minikafka.net.tasks import TaskOwner

LISTED_AFTER_FENCING_MS: Final = 2_000
PROBES_S: Final = (0.0, 0.01, 0.03)  # a process that is being killed may hold its port a moment
DECISION_TIMEOUT_S: Final = 0.5


class Absences:
    """Subscriber to metadata, told by whoever loses a connection to a broker."""

    def __init__(
        self, node_id: int, clock: Clock, tasks: TaskOwner, is_refused: Callable[[Endpoint], Awaitable[bool]]
    ) -> None:
        self._node_id = node_id
        self._clock = clock
        self._tasks = tasks
        self._is_refused = is_refused
        self._image: MetadataImage = EMPTY_IMAGE
        self._listed_until_ms: dict[int, int] = {}  # by broker
        self._undecided: dict[int, asyncio.Event] = {}  # by broker that vanished; set when its fate is known

    def listed(self) -> list[BrokerImage]:
        """The brokers that clients are told of: the live ones, and those fenced a moment ago."""
        if not self._listed_until_ms:
            return self._image.live_brokers()
        now_ms = self._clock.monotonic_ms()
        self._listed_until_ms = {id_: until for id_, until in self._listed_until_ms.items() if until > now_ms}
        brokers = sorted(self._image.brokers.items())
        return [broker for id_, broker in brokers if broker.is_live or id_ in self._listed_until_ms]

    async def wait_until_decided(self) -> None:
        """Return when nobody has vanished whose fate is open."""
        for decided in list(self._undecided.values()):
            await decided.wait()

    def on_connection_lost(self, broker_id: int) -> None:
        """A connection to a broker broke: it is taken to have vanished until it is looked at."""
        if self._image.is_live(broker_id) and broker_id not in self._undecided:
            decided = self._undecided[broker_id] = asyncio.Event()
            self._tasks.start(self._look_at(self._image.brokers[broker_id], decided), f"absence of {broker_id}")

    def on_metadata(self, delta: MetadataDelta) -> None:
        """The controller fenced or registered brokers. Before this node is live, what it learns is long past."""
        self._image = delta.after
        for broker_id in delta.brokers:
            before, after = delta.before.broker(broker_id), delta.after.broker(broker_id)
            if broker_id in self._undecided:
                self._undecided[broker_id].set()
            if after is None or after.is_live:
                self._listed_until_ms.pop(broker_id, None)
            elif before is not None and before.is_live and delta.before.is_live(self._node_id):
                self._listed_until_ms[broker_id] = self._clock.monotonic_ms() + LISTED_AFTER_FENCING_MS

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
            if CLIENT in broker.listeners and await self._is_refused(broker.listeners[CLIENT]):
                return True
        return False
