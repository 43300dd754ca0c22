"""Regular expressions that are made to run for long, for a transactional id that is made for them."""

from __future__ import annotations

from typing import Final

import pytest
from live_attack import Target
from live_cluster import eventually

from minikafka.errors import ErrorCode
from minikafka.wire.messages.find_coordinator import FindCoordinatorRequest
from minikafka.wire.messages.init_producer_id import InitProducerIdRequest
from minikafka.wire.messages.list_transactions import ListTransactionsRequest

pytestmark = pytest.mark.spec("P6")

LONG_ID: Final = "x" * 8_000
ANSWERS: Final = {
    "x+": ErrorCode.NONE,
    "(x+x+)+y": ErrorCode.NONE,
    "(.*){300}": ErrorCode.NONE,  # half a second in a thread
    r"(?i)" + r"\PL" * 64: ErrorCode.INVALID_REGULAR_EXPRESSION,
    "((((x{9}){9}){9}){9}){9}": ErrorCode.INVALID_REGULAR_EXPRESSION,
    "(" * 30_000: ErrorCode.INVALID_REGULAR_EXPRESSION,
}


def test_expressions_hold_nobody_up(target: Target) -> None:
    with target.wire() as wire:
        find = FindCoordinatorRequest(coordinator_keys=[LONG_ID], key_type=1)
        eventually(lambda: wire.ask(find, 4).coordinators[0].error_code == 0, "a coordinator")
        init = InitProducerIdRequest(transactional_id=LONG_ID, transaction_timeout_ms=60_000)
        eventually(lambda: wire.ask(init, 4).error_code == 0, "a producer id")
        for pattern, error in ANSWERS.items():
            answer = wire.ask(ListTransactionsRequest(transactional_id_pattern=pattern), 2)
            assert answer.error_code in (error, ErrorCode.INVALID_REGULAR_EXPRESSION), pattern[:40]  # or the time is up
            states = answer.transaction_states  # of other attacks, too
            names = [each.transactional_id for each in states if each.transactional_id == LONG_ID]
            assert names == ([LONG_ID] if pattern != "(x+x+)+y" and not answer.error_code else []), pattern[:40]
