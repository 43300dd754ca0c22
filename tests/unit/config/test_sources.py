"""Files and environment turned into mappings of settings."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.config import ConfigError, environment_settings, parse_properties, parse_toml


def test_properties_as_java_writes_them() -> None:
    text = r"""
# a comment
! another
node.id=1
  broker.rack : eu-1
listeners=CLIENT://h:1,\
    REPLICATION://h:2,\
    CONTROLLER://h:3
log.dirs /data/a
cluster.id = a=b:c
cluster\.secret=\u0041\t\\x\ud83d\ude00
empty=
"""
    assert parse_properties(text) == {
        "node.id": "1",
        "broker.rack": "eu-1",
        "listeners": "CLIENT://h:1,REPLICATION://h:2,CONTROLLER://h:3",
        "log.dirs": "/data/a",
        "cluster.id": "a=b:c",
        "cluster.secret": "A\t\\x😀",
        "empty": "",
    }


def test_properties_continued_to_the_end_of_the_file() -> None:
    assert parse_properties("a=b\\") == {"a": "b"}


def test_properties_name_their_problems_by_line() -> None:
    with pytest.raises(ConfigError) as raised:
        parse_properties("a=1\n\n=2\na=3\n")
    assert raised.value.problems == ("line 3 has no name before its value", "line 4: a is given twice")


@given(st.text())
def test_properties_take_any_text(text: str) -> None:
    with contextlib.suppress(ConfigError):
        assert all(parse_properties(text))


def test_toml_tables_and_dotted_names_are_the_same() -> None:
    text = """
    "node.id" = 3
    broker.rack = "a"
    [log]
    dirs = ["/a", "/b"]
    [log.retention]
    ms = -1
    """
    assert parse_toml(text) == {"node.id": 3, "broker.rack": "a", "log.dirs": ["/a", "/b"], "log.retention.ms": -1}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('node.id = 1\n"node.id" = 2', "node.id is given twice"),
        ("node.id = ", "not TOML: "),
        ("a = 1\na = 2", "not TOML"),
    ],
)
def test_toml_that_cannot_be_used(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_toml(text)


def test_variables_with_our_prefix_are_settings() -> None:
    environment = {"MINIKAFKA_LOG_DIRS": "/data", "PATH": "/bin", "MINIKAFKA_DIR": "/x", "MINIKAFKA_NODE_ID": "2"}
    assert environment_settings(environment) == {"log.dirs": "/data", "node.id": "2"}
