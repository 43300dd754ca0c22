"""All labs, in the order in which one may see them."""

from __future__ import annotations

from typing import Final

from minikafka.chaos.lab.acks_one import AcksOne
from minikafka.chaos.lab.delayed_end_txn import DelayedEndTxn
from minikafka.chaos.lab.full_disk import FullDisk
from minikafka.chaos.lab.lab import Lab
from minikafka.chaos.lab.min_isr import MinIsr
from minikafka.chaos.lab.rack import Rack
from minikafka.chaos.lab.rebalance_storm import RebalanceStorm
from minikafka.chaos.lab.slow_follower import SlowFollower
from minikafka.chaos.lab.split_quorum import SplitQuorum
from minikafka.chaos.lab.unclean_election import UncleanElection
from minikafka.chaos.lab.zombie_leader import ZombieLeader

_LABS: Final[tuple[type[Lab], ...]] = (
    AcksOne,
    MinIsr,
    UncleanElection,
    ZombieLeader,
    SplitQuorum,
    SlowFollower,
    Rack,
    RebalanceStorm,
    FullDisk,
    DelayedEndTxn,
)
LABS: Final[dict[str, type[Lab]]] = {lab.name: lab for lab in _LABS}
