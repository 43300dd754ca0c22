"""What the bank's readers count, and the verdict. (That it runs is for `make demo-transactions` to show.)"""

from __future__ import annotations

import json

import pytest

from minikafka.chaos.bank import BankOutcome, Reader
from minikafka.chaos.late_end import LateEnd
from minikafka.cli.demo_transactions import as_dict, sentence_of_bank, sentence_of_late_end
from minikafka.errors import ErrorCode
from minikafka.model import Isolation


def reader(*bookings: tuple[int, int] | None) -> Reader:
    """Of transfers and amounts; None is a look."""
    seen = Reader(Isolation.READ_COMMITTED)
    for booking in bookings:
        if booking is None:
            seen.look()
        else:
            seen.read(json.dumps({"transfer": booking[0], "amount": booking[1]}).encode())
    return seen


def outcome(seen: Reader, sent: int = 2) -> BankOutcome:
    return BankOutcome(sent, seen, Reader(Isolation.READ_UNCOMMITTED), {"application": 3}, 20.4)


EXACT = ((0, -5), (1, -7), (0, 5), (1, 7), None)


def test_an_exact_bank() -> None:
    result = outcome(reader(*EXACT))
    assert result.is_exact
    assert sentence_of_bank(result).startswith(
        "exact: 2 transfers, each booked once; the sum was right in all 1 looks (killed: application 3)."
    )
    assert as_dict(result)["read_committed"]["wrong_sums"] == 0


@pytest.mark.parametrize(
    ("bookings", "says"),
    [
        (((0, -5), (0, 5), None), "lost 1"),
        ((*EXACT, (1, -7), (1, 7), None), "booked twice 1"),
        (((0, -5), (0, 5), (1, -7), (1, 7), (2, 0), None), "half booked 1"),
        (((0, -5), None, (0, 5), (1, -7), (1, 7), None), "the sum was wrong in 1 looks"),
    ],
)
def test_a_bank_that_is_not_exact(bookings: tuple[tuple[int, int] | None, ...], says: str) -> None:
    result = outcome(reader(*bookings))
    assert not result.is_exact
    assert sentence_of_bank(result).startswith("NOT exact: of 2 transfers")
    assert says in sentence_of_bank(result)


@pytest.mark.parametrize(
    ("version", "after", "expected", "says"),
    [
        (1, 170, True, "version 1: the late commit ended another transaction, and 30 of 200 are lost"),
        (1, 200, False, "version 1: the late commit was refused (NONE), and no money is lost"),
        (2, 200, True, "version 2: the late commit was refused (NONE), and no money is lost"),
        (2, 170, False, "version 2: the late commit ended another transaction, and 30 of 200 are lost"),
    ],
)
def test_a_late_commit(version: int, after: int, expected: bool, says: str) -> None:
    late = LateEnd(version, ErrorCode.NONE, ErrorCode.NONE, 200, after)
    assert late.as_expected == expected
    assert sentence_of_late_end(late).startswith(says)
