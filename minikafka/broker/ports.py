"""Inputs of a node: its settings, and all its access to the world outside.

Time, randomness, disk and the machine's boot id are passed in at the composition root; sockets and threads are the
event loop's. So the same node runs on uvloop and on a loop with virtual time.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from minikafka.broker.clock import Clock
from minikafka.broker.descriptors import Shares
from minikafka.broker.faults.switchboard import Faults
from minikafka.broker.first_users import FirstUser
from minikafka.broker.threads import Threads
from minikafka.broker.timers import Timers
from minikafka.broker.tls import Tls
from minikafka.config import BrokerConfig
from minikafka.net.identity import Identity
from minikafka.net.tasks import TaskOwner
from minikafka.storage.disk import Disk


@dataclass(frozen=True, slots=True)
class Ports:
    """For builders of parts; a part itself gets only the inputs that it uses."""

    config: BrokerConfig
    cluster_id: str
    boot_id: str | None
    """Changes when the machine restarts; None where it is unknown."""
    identity: Identity
    disk: Disk
    clock: Clock
    rng: random.Random
    tasks: TaskOwner
    timers: Timers
    threads: Threads
    descriptors: Shares
    on_fatal: Callable[[BaseException], None]
    """Ends the process after a fatal error."""
    tls: Tls | None = None
    """Of the listeners that speak it."""
    first_users: tuple[FirstUser, ...] = ()
    """Of a new cluster."""
    faults: Faults | None = None
    """What a test breaks; None: nothing can be broken."""

    def new_uuid(self) -> UUID:
        """A random UUID (version 4)."""
        return UUID(int=self.rng.getrandbits(128), version=4)
