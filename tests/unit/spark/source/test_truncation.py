"""Streams whose log was truncated, or is another one."""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.model import OffsetAndEpoch, TopicPartition
from minikafka.spark.source.losses import DataLossError
from minikafka.spark.source.truncation import Truncations

A0 = TopicPartition("a", 0)


def moved(logs: Any, truncations: Truncations, offset: int, epoch: int) -> Any:
    return truncations.moved(logs, {A0: OffsetAndEpoch(offset, epoch)}, logs.offsets([A0], -1))


@pytest.fixture
def truncations() -> Truncations:
    return Truncations(fail=False)


def test_no_question_while_the_epoch_is_the_same(logs: Any, truncations: Truncations) -> None:
    logs.put(A0, 0, (3, 100))
    moved(logs, truncations, 50, 3)
    asked = logs.asked
    assert moved(logs, truncations, 50, 3) == {}
    assert logs.asked == asked + 2, "the end, and an empty question"


def test_a_clean_change_of_leaders_is_no_loss(logs: Any) -> None:
    logs.put(A0, 0, (3, 60), (4, 100))
    assert moved(logs, Truncations(fail=True), 60, 3) == {}


def test_an_unclean_one_is_found_though_the_numbers_are_there_again(logs: Any, truncations: Truncations) -> None:
    logs.put(A0, 0, (3, 55), (4, 100))
    assert moved(logs, truncations, 60, 3) == {A0: (55, 3)}
    with pytest.raises(
        DataLossError, match=r"a-0 was read up to offset 60 \(epoch 3\), but its log is the same only up"
    ):
        moved(logs, Truncations(fail=True), 60, 3)


def test_a_new_leader_that_knows_no_high_watermark_yet_is_no_loss(logs: Any) -> None:
    logs.put(A0, 0, (3, 60), (4, 60))
    known, seen = {A0: OffsetAndEpoch(60, 3)}, {A0: OffsetAndEpoch(40, 4)}
    assert Truncations(fail=True).moved(logs, known, seen) == {}


def test_a_log_with_nothing_in_common_is_read_from_its_start(logs: Any, truncations: Truncations) -> None:
    logs.put(A0, 2, (0, 20))
    assert moved(logs, truncations, 60, 3) == {A0: (2, 0)}
    with pytest.raises(DataLossError, match="deleted and created again"):
        moved(logs, Truncations(fail=True), 60, 3)


def test_without_an_epoch_only_the_end_tells(logs: Any, truncations: Truncations) -> None:
    logs.put(A0, 0, (3, 55))
    assert moved(logs, truncations, 50, -1) == {}
    assert moved(logs, truncations, 60, -1) == {A0: (55, 3)}
    with pytest.raises(
        DataLossError, match="its log ends at 55: it was truncated, or the topic was deleted and created"
    ):
        moved(logs, Truncations(fail=True), 60, -1)
