"""Retention beyond the golden scenarios."""

from __future__ import annotations

from groups_driver import Driver

from minikafka.groups.effects import Write
from minikafka.wire.consumer_protocol import encode_subscription
from minikafka.wire.messages.consumer_protocol import ConsumerProtocolSubscription

DAY_MS = 24 * 3_600_000
METADATA = encode_subscription(ConsumerProtocolSubscription(topics=["t"]))


def keep_alive(driver: Driver, member: str, generation: int, for_ms: int) -> None:
    for _ in range(for_ms // 1_000_000):
        driver.advance(1_000_000)
        assert driver.heartbeat(member, generation).error_code == 0


def test_a_stable_group_keeps_what_it_subscribes_to(driver: Driver) -> None:
    (member,) = driver.stable("a", protocols={"range": METADATA}, session_ms=1_800_000)
    driver.commit({("t", 0): 1, ("u", 0): 2}, member, 1)
    keep_alive(driver, member, 1, 8 * DAY_MS)
    assert driver.fetch() == {("t", 0): 1}


def test_a_group_whose_subscription_is_not_readable_keeps_all(driver: Driver) -> None:
    (member,) = driver.stable("a", protocols={"range": b"?"}, session_ms=1_800_000)
    driver.commit({("t", 0): 1}, member, 1)
    keep_alive(driver, member, 1, 8 * DAY_MS)
    assert driver.fetch() == {("t", 0): 1}


def test_an_offset_may_bring_its_own_retention(driver: Driver) -> None:
    driver.commit({("t", 0): 1}, retention_ms=DAY_MS, version=4)
    driver.commit({("t", 1): 2}, retention_ms=9 * DAY_MS, version=4)
    driver.advance(DAY_MS + 600_000)
    assert driver.fetch() == {("t", 1): 2}
    driver.failover()
    driver.advance(7 * DAY_MS)
    assert driver.fetch() == {("t", 1): 2}
    driver.advance(DAY_MS + 600_000)
    assert driver.fetch() == {}


def test_a_jump_of_the_wall_clock_expires_nothing(driver: Driver) -> None:
    driver.commit({("t", 0): 1})
    driver.wall_ms += 100 * DAY_MS
    driver.advance(DAY_MS)
    assert driver.fetch() == {("t", 0): 1}


def test_ages_survive_a_failover_by_the_wall_clock(driver: Driver) -> None:
    driver.commit({("t", 0): 1})
    (member,) = driver.stable("a", group="h")
    driver.commit({("t", 0): 2}, member, 1, group="h")
    driver.advance(2 * DAY_MS)  # "h" is empty from the first seconds on
    driver.failover()
    driver.advance(5 * DAY_MS + 600_000)
    assert driver.fetch() == {}
    driver.advance(600_000)
    assert driver.fetch(group="h") == {}
    assert driver.coordinator.list_groups() == []


def test_a_wall_clock_that_went_back_makes_nothing_older(driver: Driver) -> None:
    driver.commit({("t", 0): 1})
    driver.wall_ms -= 10 * DAY_MS
    driver.failover()
    driver.advance(6 * DAY_MS)
    assert driver.fetch() == {("t", 0): 1}


def test_many_offsets_expire_in_several_writes() -> None:
    driver = Driver(tombstones_per_write=10)
    driver.commit({("t", index): 1 for index in range(25)})
    effects = driver.advance(8 * DAY_MS)
    assert [len(effect.records) for effect in effects if isinstance(effect, Write)] == [10, 10, 5]
    assert driver.coordinator.list_groups() == []


def test_a_commit_after_the_group_became_empty_counts_from_then(driver: Driver) -> None:
    driver.stable("a")
    driver.advance(5 * DAY_MS)
    driver.commit({("t", 0): 1})
    driver.advance(5 * DAY_MS)
    assert driver.fetch() == {("t", 0): 1}
