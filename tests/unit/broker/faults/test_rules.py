"""Rules for requests: the first that fits decides, and it counts."""

from __future__ import annotations

from minikafka.broker.faults.rules import Effect, Rule, Rules
from minikafka.errors import ErrorCode
from minikafka.wire.api import ApiKey
from minikafka.wire.schema import VersionRange


def rules_of(*rules: Rule) -> Rules:
    rules_ = Rules()
    for rule in rules:
        rules_.add(rule)
    return rules_


def take(rules: Rules, key: int, client_id: str | None) -> Rule | None:
    """The rule for this request, which counts."""
    rule = rules.find(key, client_id)
    if rule is not None:
        rules.count(rule)
    return rule


def test_the_first_rule_that_fits_decides() -> None:
    first = Rule(ApiKey.PRODUCE, Effect.DROP, client_id="app-*")
    second = Rule(ApiKey.PRODUCE, Effect.DELAY, delay_ms=10)
    rules = rules_of(first, second)
    assert take(rules, ApiKey.PRODUCE, "app-7") is first
    assert take(rules, ApiKey.PRODUCE, "App-7") is second
    assert take(rules, ApiKey.PRODUCE, None) is second
    assert take(rules, ApiKey.FETCH, "app-7") is None


def test_brackets_of_a_client_id_stand_for_themselves() -> None:
    rules = rules_of(Rule(ApiKey.PRODUCE, Effect.DROP, client_id="test_orders[1?-*]"))
    assert take(rules, ApiKey.PRODUCE, "test_orders[12-snappy]") is not None
    assert take(rules, ApiKey.PRODUCE, "test_orders1") is None


def test_a_rule_is_gone_after_its_times() -> None:
    rules = rules_of(Rule(ApiKey.FETCH, Effect.DISCONNECT, times=2))
    assert [take(rules, ApiKey.FETCH, "c") is not None for _ in range(3)] == [True, True, False]
    assert not rules


def test_rules_are_taken_away_by_their_numbers() -> None:
    rules = rules_of(Rule(ApiKey.FETCH, Effect.DROP), Rule(ApiKey.FETCH, Effect.DUPLICATE))
    assert rules.remove(1)
    assert not rules.remove(1)
    assert [rule.number for rule in rules] == [2]
    rules.add(Rule(ApiKey.FETCH, Effect.DROP))
    assert [rule.number for rule in rules] == [2, 3]  # a number is not given twice
    rules.clear()
    assert not rules


def test_fewer_versions_are_told_and_take_no_request() -> None:
    rules = rules_of(
        Rule(ApiKey.PRODUCE, Effect.VERSIONS, versions=VersionRange(0, 7), client_id="old"),
        Rule(ApiKey.PRODUCE, Effect.VERSIONS, versions=VersionRange(0, 9)),
    )
    assert take(rules, ApiKey.PRODUCE, "old") is None
    assert rules.versions("old") == {ApiKey.PRODUCE: VersionRange(0, 7)}
    assert rules.versions("new") == {ApiKey.PRODUCE: VersionRange(0, 9)}


def test_a_rule_says_what_it_does() -> None:
    rule = Rule(ApiKey.OFFSET_COMMIT, Effect.ERROR, "app", 3, is_after=True, error=ErrorCode.REQUEST_TIMED_OUT)
    rules_of(rule)
    assert str(rule) == ("rule 1: OffsetCommit of app is answered REQUEST_TIMED_OUT, but carried out, 3 more times")
