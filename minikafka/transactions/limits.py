"""Bounds of what clients may have coordinators keep: memory, and the size of a record.

A refused request changes nothing, and neither an id that is known nor an open transaction is lost to make room: ids are
let in up to half of the memory, so that those that are there have room for their transactions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from minikafka.errors import ErrorCode, KafkaError
from minikafka.transactions.records import largest_record, may_be_larger
from minikafka.transactions.transaction import Transaction

ID_BYTES: Final = 600
"""What a transactional id takes at rest, beside its name."""
PARTITION_BYTES: Final = 128
"""What a partition of an open transaction takes."""


class LimitError(KafkaError):
    """A limit of the broker, not the client's state, is the reason: its operator should hear of it."""


@dataclass(slots=True, eq=False)
class Memory:
    """Bytes of ids and open transactions in all coordinators of a node. What a new leader loads is always let in."""

    limit_bytes: int
    held_bytes: int = 0

    def check_id(self) -> None:
        """Is there room for another id? LimitError(COORDINATOR_NOT_AVAILABLE): there may be when ids have expired."""
        if self.held_bytes + ID_BYTES > self.limit_bytes // 2:
            raise self._error("another transactional id")

    def check_partitions(self, count: int) -> None:
        """Is there room for more partitions? LimitError(COORDINATOR_NOT_AVAILABLE): when transactions have ended."""
        if self.held_bytes + PARTITION_BYTES * count > self.limit_bytes:
            raise self._error(f"{count} more partitions in a transaction")

    def _error(self, what: str) -> LimitError:
        return LimitError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            f"no memory for {what}: transactional ids and open transactions take {self.held_bytes} bytes of"
            f" {self.limit_bytes} (transaction.memory.max.bytes; half of it is for ids)",
        )


def check_record_size(transaction: Transaction, largest: int) -> None:
    """Every later record of a transaction must fit, too, or it could never end. LimitError(RECORD_LIST_TOO_LARGE)."""
    if may_be_larger(transaction, largest) and (size := largest_record(transaction)) > largest:
        raise LimitError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"the record of the transaction would take {size} bytes, but a segment of its log has {largest}"
            " (transaction.state.log.segment.bytes)",
        )
