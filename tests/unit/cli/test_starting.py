"""Where ``minikafka consume`` starts, in words."""

from __future__ import annotations

import pytest
import typer

from minikafka.cli.starting import Start, checked_offset, matching, parse_partitions, parse_pattern, parse_start
from minikafka.errors import KafkaError
from minikafka.model import EARLIEST, LATEST, TopicPartition


@pytest.mark.parametrize(
    ("word", "start"),
    [
        ("earliest", Start(EARLIEST)),
        ("beginning", Start(EARLIEST)),
        ("latest", Start(LATEST)),
        ("end", Start(LATEST)),
        ("0", Start(offset=0)),
        ("-5", Start(last=5)),
    ],
)
def test_a_start(word: str, start: Start) -> None:
    assert parse_start(word) == start


@pytest.mark.parametrize("word", ["", "newest", "--5", "1.5", str(2**63), "\u00b2"])
def test_no_start_is_refused(word: str) -> None:
    with pytest.raises(typer.BadParameter, match="nor earliest or latest"):
        parse_start(word)


def test_partitions() -> None:
    assert parse_partitions(["2,0", "2"]) == [0, 2]
    with pytest.raises(typer.BadParameter, match="'x' is no partition"):
        parse_partitions(["0,x"])


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("or.*", ["orders"]),
        ("orders,clicks", ["clicks", "orders"]),
        ("c.{5}", ["clicks"]),
        ("(?i)CL.*", ["clicks"]),
        ("x", []),
    ],
)
def test_a_pattern_matches_whole_names(pattern: str, found: list[str]) -> None:
    assert matching(parse_pattern(pattern), ["clicks", "orders", "priors"]) == found


def test_no_pattern_is_refused() -> None:
    with pytest.raises(typer.BadParameter, match="is no regular expression"):
        parse_pattern("(")


def test_an_offset_is_in_the_log_or_its_end() -> None:
    tp = TopicPartition("t", 0)
    assert [checked_offset(tp, offset, 3, 5) for offset in (3, 5)] == [3, 5]
    for offset in (2, 6):
        with pytest.raises(KafkaError, match=rf"offset {offset} not found: t-0 has offsets 3\.\.5"):
            checked_offset(tp, offset, 3, 5)
