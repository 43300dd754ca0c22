"""A commit that the network delays ends another transaction in version 1 of the protocol, and not in version 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from minikafka.chaos.late_end import LateEnd, show_late_end
from minikafka.errors import ErrorCode

NONE = ErrorCode.NONE


@pytest.mark.spec("T5")
@pytest.mark.parametrize(
    "seen",
    [LateEnd(1, NONE, ErrorCode.INVALID_TXN_STATE, 200, 170), LateEnd(2, ErrorCode.PRODUCER_FENCED, NONE, 200, 200)],
    ids=lambda seen: f"version-{seen.version}",
)
def test_a_commit_that_is_late(seen: LateEnd, tmp_path: Path) -> None:
    said: list[str] = []
    assert show_late_end(tmp_path / "cluster", seen.version, said.append) == seen
    balances = [text.partition("committed are ")[2] for text in said if "committed are" in text]
    assert balances[:2] == ["alice 100, bob 100", "alice 70, bob 130"]
