"""What the driver of a transaction coordinator carries out, beside the effects of all coordinators; keys of timers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from minikafka.coordination.effects import Effect as CommonEffect
from minikafka.errors import ErrorCode
from minikafka.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from minikafka.transactions.transaction import Transaction


class Outcome(NamedTuple):
    """The response to a request: an error, or NONE with the producer id and epoch that its producer goes on with."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class SendMarkers(NamedTuple):
    """Write the marker of a transaction to the leader of each partition, and again until it is there.

    The driver reports with ``on_marked(transactional_id, producer_epoch, partitions)``. A partition that is there no
    more counts as marked. When the shard resigns, the next coordinator goes on.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commits: bool
    transaction_version: int
    partitions: frozenset[TopicPartition]


class WriteLarge(NamedTuple):
    """As Write, of one record that takes long to make: make it in portions
    (:func:`~minikafka.transactions.records.encode_in_portions`)."""

    write_id: int
    transaction: Transaction


class Refused(NamedTuple):
    """Tell the operator that a limit of the broker kept this id from going on."""

    transactional_id: str
    why: str


class AskAgain(NamedTuple):
    """What was under way for this id is over: whoever was told CONCURRENT_TRANSACTIONS when it added partitions may
    ask again. The answer may be the same: only one of them comes first, and markers follow a decision."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class TransactionTimer:
    """The time-out of a transaction, or the next attempt at a write about it."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class WriteTimer:
    """The end of a response's wait for its write."""

    write_id: int


@dataclass(frozen=True, slots=True)
class ExpiryTimer:
    """The next sweep for ids that expire."""


TimerKey = TransactionTimer | WriteTimer | ExpiryTimer

Effect = CommonEffect | SendMarkers | WriteLarge | Refused | AskAgain
