"""May a producer write to a partition in its transaction? The transaction's coordinator, on whatever node, says so."""

from __future__ import annotations

from minikafka.errors import ErrorCode
from minikafka.model import TopicPartition


class TransactionAdmission:
    """Asks the coordinator. No coordinator runs yet: nobody is admitted, and no listener serves what needs it."""

    async def admit(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partition: TopicPartition,
        *,
        adds: bool,
    ) -> ErrorCode:
        """NONE if ``partition`` is part of the producer's open transaction, or has become so (``adds``).

        A client of transaction version 2 lets the leader add the partition (KIP-890); an older one has done so itself,
        and the leader verifies it. TRANSACTION_ABORTABLE for one that is not part of it.
        """
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
