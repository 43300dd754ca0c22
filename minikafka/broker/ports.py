"""What a node stands on: its settings, and every way that it has to the world outside.

Time, randomness, disk and the machine's boot id are handed in at the composition root, sockets and threads are the
event loop's. So the same node runs on uvloop and on a loop with virtual time.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from minikafka.broker.clock import Clock
from minikafka.broker.descriptors import Shares
from minikafka.broker.threads import Threads
from minikafka.broker.timers import Timers
from minikafka.config import BrokerConfig
from minikafka.net.identity import Identity
from minikafka.net.tasks import TaskOwner
from minikafka.storage.disk import Disk


@dataclass(frozen=True, slots=True)
class Ports:
    """Handed to whoever builds a part; parts themselves get only what they use."""

    config: BrokerConfig
    cluster_id: str
    boot_id: str | None
    """Changes when the machine starts anew; None where that cannot be told."""
    identity: Identity
    disk: Disk
    clock: Clock
    rng: random.Random
    tasks: TaskOwner
    timers: Timers
    threads: Threads
    descriptors: Shares
    on_fatal: Callable[[BaseException], None]
    """Nothing good can come of going on."""

    def new_uuid(self) -> UUID:
        """A random UUID (version 4)."""
        return UUID(int=self.rng.getrandbits(128), version=4)
