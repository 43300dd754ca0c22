"""Subscriptions by regular expression."""

from __future__ import annotations

import pytest
from consumer_driver import ConsumerDriver, given

from minikafka.errors import ErrorCode


@pytest.fixture
def driver() -> ConsumerDriver:
    """Some topics, and a member with an expression that is not resolved."""
    driver = ConsumerDriver(topics={"t1": 1, "t2": 2, "u": 4})
    driver.beat("a", regex="t.*")
    return driver


def topics(driver: ConsumerDriver, member: str = "a") -> int:
    """How many partitions the member is told of with its next heartbeat."""
    epoch = driver.consumer().current(member).member_epoch
    return len(given(driver.beat(member, epoch)) or ())


@pytest.mark.spec("G10")
def test_topics_are_assigned_once_the_expression_is_resolved(driver: ConsumerDriver) -> None:
    assert topics(driver) == 0
    assert [question.regexes for question in driver.questions] == [("t.*",)], "it asks once"
    driver.resolve()
    assert topics(driver) == 3
    assert driver.consumer().subscribed_topics() == {"t1", "t2"}
    driver.failover()
    assert driver.consumer().topics_of("t.*") == ("t1", "t2")


@pytest.mark.spec("G10")
def test_members_share_what_is_resolved(driver: ConsumerDriver) -> None:
    driver.resolve()
    driver.beat("b", regex="t.*")
    assert len(driver.consumer().targets["b"]) > 0
    assert not driver.questions


@pytest.mark.spec("G10")
def test_new_topics_are_seen_but_not_more_often_than_every_ten_seconds(driver: ConsumerDriver) -> None:
    driver.resolve()
    topics(driver)
    driver.change_topics(t3=5)
    topics(driver)
    assert not driver.questions
    driver.advance(10_000)
    topics(driver)
    driver.resolve()
    assert topics(driver) == 8


def test_an_expression_that_nobody_has_any_more_is_forgotten(driver: ConsumerDriver) -> None:
    driver.resolve()
    driver.beat("b", names=["u"])
    driver.beat("a", driver.consumer().current("a").member_epoch, regex="", names=["u"])
    assert driver.consumer().regexes == {}
    driver.beat("a", driver.consumer().current("a").member_epoch, regex="u")
    driver.resolve()
    assert driver.consumer().topics_of("u") == ("u",)
    driver.beat("a", -1)
    assert driver.consumer().regexes == {}


def test_an_answer_that_nobody_waits_for_changes_nothing(driver: ConsumerDriver) -> None:
    driver.beat("a", -1)
    before = list(driver.log)
    driver.resolve()
    assert driver.log == before
    driver.delete_group()
    driver.run(driver.coordinator.on_regexes_resolved("g", {"t.*": ("t1",)}, 0, driver.now_ms))
    assert driver.coordinator.shard.groups == {}


def test_what_could_not_be_written_is_asked_again(driver: ConsumerDriver) -> None:
    driver.fails = ErrorCode.NOT_ENOUGH_REPLICAS
    driver.resolve()
    assert driver.consumer().regexes == {}
    topics(driver)
    driver.resolve()
    driver.change_topics(t4=1)
    driver.advance(10_000)
    topics(driver)
    driver.fails = ErrorCode.NOT_ENOUGH_REPLICAS
    driver.resolve()
    driver.advance(10_000)
    topics(driver)
    driver.resolve()
    assert driver.consumer().topics_of("t.*") == ("t1", "t2", "t4")


def test_it_is_looked_at_again_now_and_then(driver: ConsumerDriver) -> None:
    driver.resolve()
    for _ in range(20):
        driver.advance(30_000)
        topics(driver)
    assert len(driver.questions) == 1
