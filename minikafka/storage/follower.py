"""A follower's checks of the leader's batches before the append: they must continue its log exactly (row R11)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka.errors import ErrorCode, KafkaError
from minikafka.records.batch import BatchHeader, crc_is_valid, iter_batches
from minikafka.storage.errors import EpochsFall, IllegalLogState, StartsInsideBatch

if TYPE_CHECKING:
    from minikafka.storage.log import Log


def checked_batches(
    log: Log, records: memoryview, leader_epoch: int | None, end_offset: int | None
) -> list[tuple[int, BatchHeader]]:
    """(position, header) of each whole batch in ``records``; they must continue the log.

    Gaps are accepted: compaction leaves them, also in topics that are no longer compacted. A batch of a later epoch
    than ``leader_epoch``, that of the fetch, is refused: no checksum covers that field (KAFKA-18723).

    DeleteRecords may let the leader's log begin inside a batch. An empty log at that offset raises StartsInsideBatch.

    Base offsets have no checksum either. A raised one on the leader's disk looks like a gap, but then the next batch
    goes back. The last batch must end at or before ``end_offset``, which the leader knows.
    """
    batches = list(iter_batches(records))
    if len(records) and not batches:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"no whole batch for {log.topic_partition} in {len(records)} bytes: the length of the first one is wrong",
        )
    expected, epoch = log.log_end_offset, log.epochs.latest_epoch
    for position, header in batches:
        if (
            header.base_offset < expected < header.next_offset
            and log.log_start_offset == log.log_end_offset == expected
        ):
            raise StartsInsideBatch(header.base_offset)
        if header.base_offset < expected:
            raise IllegalLogState(f"{log.topic_partition} ends at {expected}; a batch at {header.base_offset} came")
        if header.leader_epoch < epoch:
            why = f"{log.topic_partition} is in leader epoch {epoch}; a batch of epoch {header.leader_epoch} came"
            raise EpochsFall(why, header.leader_epoch)
        if leader_epoch is not None and header.leader_epoch > leader_epoch:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"a batch of epoch {header.leader_epoch} came for {log.topic_partition}, fetched in {leader_epoch}",
            )
        if header.last_offset_delta < 0 or not crc_is_valid(records, position, header):
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"the batch for {log.topic_partition} at offset {header.base_offset} fails its checksum",
            )
        expected, epoch = header.next_offset, header.leader_epoch
    if end_offset is not None and expected > end_offset and batches:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"batches for {log.topic_partition} came that end at {expected}; the leader says that it is {end_offset}",
        )
    return batches
