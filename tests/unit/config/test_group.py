"""Settings of a group, with their bounds and fallbacks."""

from __future__ import annotations

import pytest

from minikafka.config import BrokerConfig, ConfigError, ConfigSource, GroupConfig

SESSION, INTERVAL = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
ASSIGNMENT = "consumer.assignment.interval.ms"


def test_a_value_is_the_groups_or_the_nodes() -> None:
    node = BrokerConfig({"group.consumer.session.timeout.ms": "50000"})
    config = GroupConfig({INTERVAL: "7000"}, node)
    assert (config.consumer_session_timeout_ms, config.consumer_heartbeat_interval_ms) == (50_000, 7_000)
    rows = {row.name: row for row in config.describe()}
    assert (rows[SESSION].value, rows[SESSION].source) == ("50000", ConfigSource.STATIC_BROKER_CONFIG)
    assert [(each.name, each.value, each.source) for each in rows[INTERVAL].synonyms] == [
        (INTERVAL, "7000", ConfigSource.GROUP_CONFIG),
        ("group.consumer.heartbeat.interval.ms", "5000", ConfigSource.DEFAULT_CONFIG),
    ]


def test_a_node_with_other_bounds_keeps_to_them() -> None:
    """What was set before they changed."""
    config = GroupConfig({INTERVAL: "1000", SESSION: "90000"})
    assert config.bounded(GroupConfig.consumer_heartbeat_interval_ms) == 5_000
    assert config.bounded(GroupConfig.consumer_session_timeout_ms) == 60_000
    assert GroupConfig({INTERVAL: "6000"}).bounded(GroupConfig.consumer_heartbeat_interval_ms) == 6_000


@pytest.mark.spec("G13")
def test_what_a_node_has_may_be_dynamic() -> None:
    name = f"group.{ASSIGNMENT}"
    node = BrokerConfig({name: "3000"}).overridden({name: "2000"}, {name: "1000"})
    assert GroupConfig({}, node).consumer_assignment_interval_ms == 2_000
    entry = {row.name: row for row in GroupConfig({ASSIGNMENT: "9"}, node).describe()}[ASSIGNMENT]
    assert (entry.value, [each.value for each in entry.synonyms]) == ("9", ["9", "2000", "1000", "3000", "0"])


@pytest.mark.spec("G13")
def test_a_session_is_longer_than_an_interval() -> None:
    low = {"group.consumer.min.session.timeout.ms": "1000"}
    problems = GroupConfig({SESSION: "5000", INTERVAL: "6000"}, BrokerConfig(low)).problems()
    assert problems == ["consumer.session.timeout.ms = 5000: must be above consumer.heartbeat.interval.ms = 6000"]
    assert not GroupConfig({SESSION: "7000", INTERVAL: "6000"}, BrokerConfig(low)).problems()


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"group.consumer.heartbeat.interval.ms": "500"}, "from 5000"),
        ({"group.consumer.session.timeout.ms": "61000"}, "to 60000"),
        ({"group.consumer.min.session.timeout.ms": "70000"}, "from 70000"),
        ({"group.consumer.assignment.interval.ms": "16000"}, "to 15000"),
        ({"group.consumer.min.assignment.interval.ms": "1"}, "from 1"),
        (
            {"group.consumer.max.heartbeat.interval.ms": "80000", "group.consumer.heartbeat.interval.ms": "45000"},
            "must be below group.consumer.session.timeout.ms",
        ),
    ],
)
def test_the_bounds_hold_for_the_nodes_own_values(given: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        BrokerConfig(given)


def test_names_of_the_node_are_explained() -> None:
    with pytest.raises(ConfigError, match=r"not of a group; the group's is consumer\.session\.timeout\.ms"):
        GroupConfig.parse("group.consumer.session.timeout.ms", "50000")
