"""The records of the transaction topic against bytes that Kafka's own classes wrote, and against themselves."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.model import TopicPartition
from minikafka.records.build import build_batch
from minikafka.records.record import Record as BatchRecord
from minikafka.transactions import records
from minikafka.transactions.records import (
    UNRECORDED,
    decode_record,
    encode_in_portions,
    encode_tombstone,
    encode_transaction,
    largest_record,
    may_be_larger,
)
from minikafka.transactions.transaction import Transaction, TransactionState
from minikafka.wire.errors import WireError
from minikafka.wire.versioned import Record

ROWS = [
    line.split()
    for line in (Path(__file__).parents[2] / "golden" / "transactions" / "kafka_records.rows").read_text().splitlines()
    if not line.startswith("#")
]
KAFKA = {(name, int(version)): bytes.fromhex(text) for name, version, text in ROWS}
KEY = KAFKA["TransactionLogKey", 0]
ID = "copier-é"

EMPTY = Transaction(
    transactional_id=ID,
    producer_id=4_000_000_000,
    previous_producer_id=3_999_999_999,
    producer_epoch=32_766,
    timeout_ms=60_000,
    updated_ms=1_700_000_000_123,
)
ONGOING = replace(
    EMPTY,
    state=TransactionState.ONGOING,
    partitions=frozenset(
        {TopicPartition("orders", 3), TopicPartition("bestellungen-é", 0), TopicPartition("bestellungen-é", 12)}
    ),
    started_ms=1_700_000_000_001,
)
PREPARED = replace(ONGOING, state=TransactionState.PREPARE_COMMIT, next_producer_id=4_000_000_001, client_version=2)
KINDS = {"Empty": EMPTY, "Ongoing": ONGOING, "Prepared": PREPARED}


@pytest.mark.parametrize("kind", KINDS)
def test_transactions_are_written_as_kafka_writes_them(kind: str) -> None:
    assert encode_transaction(KINDS[kind]) == (KEY, KAFKA[f"{kind}TransactionLogValue", 1])


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_values_of_both_versions_are_read(kind: str, version: int) -> None:
    known = KINDS[kind]
    if version == 0:
        known = replace(known, previous_producer_id=-1, next_producer_id=-1, client_version=0)
    assert decode_record(KEY, KAFKA[f"{kind}TransactionLogValue", version]) == (ID, known)


def made_in_portions(transaction: Transaction) -> Record:
    portions = encode_in_portions(transaction)
    while True:
        try:
            next(portions)
        except StopIteration as made:
            return cast(Record, made.value)


@pytest.mark.parametrize("at_once", [1, 3, 1_000])
@pytest.mark.parametrize("topics", [1, 7, 300])
def test_large_records_are_made_in_portions(topics: int, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    partitions = frozenset(TopicPartition(f"é-{index % topics}", index) for index in range(300))
    large = replace(PREPARED, partitions=partitions)
    monkeypatch.setattr(records, "AT_ONCE", at_once)
    assert made_in_portions(large) == encode_transaction(large)


@pytest.mark.parametrize("topics", [1, 7, 300])
def test_no_record_of_a_transaction_is_larger_than_was_said(topics: int) -> None:
    """Said of the Ongoing one, true of the decision, whose lengths take the most bytes."""
    partitions = frozenset(TopicPartition("t" * 150 + str(index % topics), index) for index in range(300))
    begun = replace(ONGOING, partitions=partitions)
    decided = encode_transaction(replace(PREPARED, partitions=partitions))
    size = len(build_batch([BatchRecord(0, 1 << 40, decided.key, decided.value)]))
    assert size <= largest_record(begun) <= size + 100 + 6 * topics
    assert may_be_larger(begun, largest_record(begun) - 1)
    longest = replace(
        begun, partitions=frozenset(TopicPartition("t" * 245 + f"{index:04}", index) for index in range(300))
    )
    assert not may_be_larger(longest, largest_record(longest) + 100)
    assert may_be_larger(longest, largest_record(longest) - 1)


def test_a_tombstone_says_that_an_id_has_expired() -> None:
    assert encode_tombstone(ID) == (KEY, None)
    assert decode_record(KEY, None) == (ID, None)


def test_a_key_of_another_type_is_of_a_later_version() -> None:
    assert decode_record(b"\0\1" + KEY[2:], b"") is None


@pytest.mark.parametrize("status", [*sorted(state.value for state in UNRECORDED), 8, 127, 255])
def test_a_state_that_no_record_has_is_refused(status: int) -> None:
    value = bytearray(KAFKA["EmptyTransactionLogValue", 0])
    value[2 + 8 + 2 + 4] = status
    with pytest.raises(WireError):
        decode_record(KEY, bytes(value))


@given(st.binary(max_size=60), st.none() | st.binary(max_size=60), st.sampled_from([b"", b"\0\0", b"\0\1"]))
def test_malformed_records_are_wire_errors(key: bytes, value: bytes | None, start: bytes) -> None:
    with suppress(WireError):
        decode_record(b"\0\0" + key, None if value is None else start + value)


@pytest.mark.parametrize("kind", [name for name, version in KAFKA if version == 1])
def test_a_record_that_is_cut_off_is_a_wire_error(kind: str) -> None:
    value = KAFKA[kind, 1]
    for size in range(len(value)):
        with pytest.raises(WireError):
            decode_record(KEY, value[:size])
