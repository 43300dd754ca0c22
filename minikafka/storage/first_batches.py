"""The first batches of producers that a log does not know yet, while they may be refused for now (KIP-890).

A producer has up to five batches in flight, and one that is not known may begin anywhere. When a transaction's
coordinator does not answer in time, the first batch is refused, to be sent again. If the next one were let in then, the
first one never could be: librdkafka gives its producer up, and Java's sends it again for two minutes.
"""

from __future__ import annotations

from typing import Final

from minikafka.errors import ErrorCode, KafkaError
from minikafka.records.batch import BatchHeader

EXPECTED_MAX: Final = 1_000
"""Producers. Who came first is forgotten first."""


class FirstBatches:
    """Of one log: what it has to get first of each of these producers, in its newest epoch."""

    __slots__ = ("_expected",)

    def __init__(self) -> None:
        self._expected: dict[int, tuple[int, int]] = {}  # epoch and sequence by producer id

    def expect(self, header: BatchHeader, first_sequence: int) -> None:
        """A batch came; nothing of its producer begins behind ``first_sequence``."""
        producer_id, epoch = header.producer_id, header.producer_epoch
        expected = epoch, first_sequence
        known = self._expected.pop(producer_id, expected)
        if known[0] > epoch or (known[0] == epoch and known[1] < first_sequence):
            expected = known
        if len(self._expected) >= EXPECTED_MAX:
            del self._expected[next(iter(self._expected))]
        self._expected[producer_id] = expected

    def check(self, header: BatchHeader) -> None:
        """OUT_OF_ORDER_SEQUENCE_NUMBER for a batch behind the one that is expected: producers send it again."""
        expected = self._expected.get(header.producer_id)
        if expected is not None and header.producer_epoch == expected[0] and header.base_sequence > expected[1]:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} sent sequence {header.base_sequence} before {expected[1]}",
            )

    def done(self, producer_id: int) -> None:
        """The producer is known now."""
        self._expected.pop(producer_id, None)
