"""Damage to the file of a replica, as a bad disk makes it: nobody is told, and the node may run or be down."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from minikafka.chaos.layout import ClusterError

DAMAGED_BYTES: Final = 64


def replicas(directory: Path, topics: Iterable[str]) -> list[Path]:
    """The directories of these topics' partitions in a data directory; not of replicas that moved away, ``-delete``."""
    return [log for topic in topics for log in sorted(directory.glob(f"{topic}-*")) if log.name[-1].isdigit()]


def damage(logs: Sequence[Path], rng: random.Random, *, cut: bool | None = None) -> str | None:
    """Overwrite some bytes of a segment in one of these directories, or ``cut`` its end off; None: by chance.

    Returns what was done; None when there is nothing to damage.
    """
    segments = (path for log in logs for path in sorted(log.glob("*.log")))
    worth = [path for path in segments if path.stat().st_size > 2 * DAMAGED_BYTES]
    if not worth:
        return None
    path = rng.choice(worth)
    size = path.stat().st_size
    at = rng.randrange(size - DAMAGED_BYTES)
    name = f"{path.parent.name}/{path.name}"
    with path.open("r+b") as file:
        if rng.random() < 0.3 if cut is None else cut:
            file.truncate(at)
            return f"{name} was cut at byte {at:,} of {size:,}"
        file.seek(at)
        file.write(rng.randbytes(DAMAGED_BYTES))
    return f"{DAMAGED_BYTES} bytes of {name} from byte {at:,} on"


def damage_replica(directory: Path, topic: str, partition: int, rng: random.Random, *, cut: bool) -> str:
    """The same to one replica of a node's log directory. ClusterError: it has none, or too little is in it."""
    log = directory / f"{topic}-{partition}"
    if not log.is_dir():
        raise ClusterError(f"{directory} has no replica of {topic}-{partition}")
    done = damage([log], rng, cut=cut)
    if done is None:
        raise ClusterError(f"no segment of {log} has more than {2 * DAMAGED_BYTES} bytes; write some records first")
    return done
