"""What each type of setting takes and refuses."""

from __future__ import annotations

import re
from typing import Any

import pytest

from minikafka.config import kinds
from minikafka.model import Endpoint


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        (kinds.integer(0), "12", 12),
        (kinds.integer(0), 12, 12),
        (kinds.long(-1), " -1 ", -1),
        (kinds.integer(1, 5), "+5", 5),
        (kinds.ratio(), "0.5", 0.5),
        (kinds.ratio(), 1, 1.0),
        (kinds.boolean(), "TRUE", True),
        (kinds.boolean(), False, False),
        (kinds.text(), " a b ", "a b"),
        (kinds.text(), 7, "7"),
        (kinds.choice("a", "b"), "b", "b"),
        (kinds.words(), "a, b,", ("a", "b")),
        (kinds.words("x", "y"), ["y"], ("y",)),
        (kinds.words("x", "y"), "y,x,y", ("y", "x")),
        (kinds.nullable(kinds.integer(1)), "", None),
        (kinds.nullable(kinds.integer(1)), None, None),
        (kinds.nullable(kinds.integer(1)), "3", 3),
        (kinds.endpoints(), "A://h:1,B://:0", {"A": Endpoint("h", 1), "B": Endpoint("0.0.0.0", 0)}),
        (kinds.endpoints(), "A://[::1]:9092", {"A": Endpoint("::1", 9092)}),
        (kinds.principals(), "User:CN=a,O=b; User:c;User:c", ("User:CN=a,O=b", "User:c")),
        (kinds.principals(), "", ()),
        (kinds.voters(), "1@a:1,2@b:2", {1: Endpoint("a", 1), 2: Endpoint("b", 2)}),
        (kinds.counts_by_address(), "10.0.0.1:5, [::1]:0", {"10.0.0.1": 5, "::1": 0}),
    ],
)
def test_each_kind_of_setting_reads_its_valid_values(kind: kinds.Kind[Any], raw: object, value: object) -> None:
    assert kind.parse(raw) == value


@pytest.mark.parametrize(
    ("kind", "raw", "problem"),
    [
        (kinds.integer(0), "x", "a whole number of 0 or more"),
        (kinds.integer(0), "-1", "a whole number of 0 or more"),
        (kinds.integer(0), "1.5", "a whole number"),
        (kinds.integer(0), True, "a whole number"),
        (kinds.integer(0), 2**31, "a whole number"),
        (kinds.integer(0), "9" * 5000, "a whole number"),
        (kinds.integer(1, 5), 6, "from 1 to 5"),
        (kinds.ratio(), "1.01", "from 0 to 1"),
        (kinds.ratio(), "nan", "from 0 to 1"),
        (kinds.ratio(), True, "from 0 to 1"),
        (kinds.boolean(), "yes", "true or false"),
        (kinds.boolean(), 1, "true or false"),
        (kinds.text(), "", "text"),
        (kinds.text("[a-z]+", "letters"), "A", "letters"),
        (kinds.choice("a", "b"), "c", "one of a, b"),
        (kinds.words("x", "y"), "x,z", "a list of x and y"),
        (kinds.words(), "", "a comma-separated list"),
        (kinds.words(), "a,a", "a comma-separated list"),
        (kinds.words(), [1], "a comma-separated list"),
        (kinds.principals(), "alice", "a list of User:name, separated by semicolons"),
        (kinds.principals(), 1, "a list of User:name, separated by semicolons"),
        (kinds.endpoints(), "b://h:1", "'b://h:1' is not"),
        (kinds.endpoints(), "A://h:1,A://h:2", "'A://h:2' is not"),
        (kinds.endpoints(), "A://h", "'h' is not"),
        (kinds.endpoints(), "A://h:65536", "'h:65536' is not"),
        (kinds.endpoints(), "A://a b:1", "'a b:1' is not"),
        (kinds.voters(), "1@h:0", "from 1 to 65535"),
        (kinds.voters(), "1@h:1,1@h:2", "'1@h:2' is not"),
        (kinds.voters(), "h:1", "'h:1' is not"),
        (kinds.counts_by_address(), "h:1", "with IP addresses; 'h:1' is not"),
        (kinds.counts_by_address(), "::1:1,[::1]:2", "each address once; '[::1]:2' is not"),
        (kinds.counts_by_address(), "10.0.0.1:x", "'10.0.0.1:x' is not"),
    ],
)
def test_each_kind_of_setting_says_what_a_wrong_value_must_be(kind: kinds.Kind[Any], raw: object, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        kind.parse(raw)


@pytest.mark.parametrize(
    ("kind", "printed"),
    [
        (kinds.boolean(), "true"),
        (kinds.words(), "a,b"),
        (kinds.nullable(kinds.integer()), ""),
        (kinds.endpoints(), "A://[::1]:9092"),
        (kinds.voters(), "1@h:1,2@[::2]:2"),
        (kinds.ratio(), "0.25"),
        (kinds.counts_by_address(), "10.0.0.1:5,[::1]:2"),
    ],
)
def test_what_is_printed_is_read_back(kind: kinds.Kind[Any], printed: str) -> None:
    assert kind.format(kind.parse(printed)) == printed


def test_a_secret_is_not_printed() -> None:
    assert kinds.secret().format("s3cret") == "(hidden)"
