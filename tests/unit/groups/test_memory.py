"""What committed offsets take in a node: what is new is refused beyond a limit, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from groups_driver import Driver

from minikafka.errors import ErrorCode
from minikafka.groups.memory import OFFSET_BYTES

NOT_NOW = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # not one for which consumers leave their coordinator


def errors(answer: Any) -> list[int]:
    return [partition.error_code for topic in answer.topics for partition in topic.partitions]


def offsets(partitions: Iterable[int], offset: int = 5) -> dict[tuple[str, int], int]:
    return {("t", partition): offset for partition in partitions}


def limited(driver: Driver, limit_bytes: int) -> None:
    driver.coordinator.shard.offsets_memory.limit_bytes = limit_bytes


def held(driver: Driver) -> int:
    return driver.coordinator.shard.offsets_memory.held_bytes


def test_offsets_of_new_partitions_are_refused_beyond_the_limit_and_known_ones_go_on(driver: Driver) -> None:
    """384 groups of 250 partitions, with 4,000 bytes of metadata each, had the nodes of a cluster at 222 MB."""
    limited(driver, 40 * OFFSET_BYTES)
    assert errors(driver.commit(offsets(range(40)))) == [0] * 27 + [NOT_NOW] * 13, "three quarters, less the group's"
    assert errors(driver.commit(offsets(range(30), offset=6))) == [0] * 27 + [NOT_NOW] * 3
    assert errors(driver.commit(offsets([0]), group="another")) == [NOT_NOW]
    assert driver.group("another") is None
    assert driver.fetch(*offsets(range(30))) == offsets(range(27), 6) | offsets(range(27, 30), -1)
    driver.delete_offsets(("t", 0), ("t", 1))
    assert errors(driver.commit(offsets([40, 41, 42]))) == [0, 0, NOT_NOW]


@pytest.mark.parametrize(
    ("metadata", "bytes_of_it"), [("x" * 128, 0), ("x" * 4_000, 3_872), ("\N{GRINNING FACE}" * 1_000, 3_872)]
)
def test_metadata_counts_by_what_it_takes_beyond_what_is_usual(driver: Driver, metadata: str, bytes_of_it: int) -> None:
    driver.commit(offsets([0]))
    before = held(driver)
    driver.commit(offsets([0]), metadata=metadata)
    assert held(driver) == before + bytes_of_it


def test_who_commits_more_metadata_than_before_is_refused_and_less_is_let_in(driver: Driver) -> None:
    driver.commit(offsets([0]), metadata="x" * 3_000)
    limited(driver, held(driver))
    assert errors(driver.commit(offsets([0], 6), metadata="x" * 4_000)) == [NOT_NOW]
    assert errors(driver.commit(offsets([0], 7), metadata="x" * 3_000)) == [0]
    assert errors(driver.commit(offsets([0], 8), metadata="a little")) == [0]
    assert errors(driver.commit(offsets([0], 9), metadata="a little more")) == [0]


def test_offsets_of_transactions_have_a_part_of_the_memory_for_themselves(driver: Driver) -> None:
    """Beside those that they will replace; each producer with a transaction has its own."""
    limited(driver, 40 * OFFSET_BYTES)
    driver.commit(offsets(range(40)))
    assert errors(driver.txn_commit(offsets(range(9)), (7, 0))) == [0] * 9
    assert errors(driver.txn_commit(offsets(range(9)), (8, 0))) == [0] + [NOT_NOW] * 8
    driver.end(7)
    assert errors(driver.txn_commit(offsets(range(1, 9)), (8, 0))) == [0] * 8
    driver.end(8, commits=False)
    assert errors(driver.txn_commit(offsets([40]), (9, 0))) == [NOT_NOW], "new ones have no part of it"


def test_a_coordinator_that_has_loaded_more_than_its_memory_has_that_part_still(driver: Driver) -> None:
    """Each node had nearly all that it may: when one was down, the others refused the offsets of all transactions."""
    driver.commit(offsets(range(27)))
    limited(driver, held(driver) - OFFSET_BYTES)
    part = (held(driver) - OFFSET_BYTES) // 4 // (OFFSET_BYTES + 1)
    assert errors(driver.txn_commit(offsets(range(10)), (7, 0))) == [0] * part + [NOT_NOW] * (10 - part)
    assert errors(driver.txn_commit(offsets([0]), (8, 0))) == [NOT_NOW]
    driver.end(7)
    assert errors(driver.txn_commit(offsets([0]), (8, 0))) == [0]


def test_what_is_on_its_way_to_the_log_counts_and_is_bounded_by_itself() -> None:
    """Replicas that do not follow had a leader keep 10,000 commits, however large."""
    driver = Driver(auto_commit=False, bytes_in_flight_max=50_000)
    limited(driver, 100_000)
    first = driver.commit(offsets(range(40)))
    assert held(driver) > 40 * OFFSET_BYTES
    second = driver.commit(offsets([40]), metadata="x" * 4_000)
    third = driver.commit(offsets(range(40)), group="another")
    assert errors(third) == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 40
    driver.committed()
    driver.committed()
    assert errors(driver.answers[first]) == [0] * 40
    assert errors(driver.answers[second]) == [0]
    assert 41 * OFFSET_BYTES < held(driver) < 50 * OFFSET_BYTES + 4_000


def test_what_a_coordinator_loads_is_counted_and_what_it_gives_up_is_free(driver: Driver) -> None:
    driver.commit(offsets(range(10)), metadata="x" * 1_000)
    driver.txn_commit(offsets(range(5)))
    before, former = held(driver), driver.coordinator
    driver.failover()
    assert held(driver) == before
    assert former.shard.offsets_memory.held_bytes == 0
    driver.end(commits=False)
    driver.delete_group("g")
    assert held(driver) == 0
