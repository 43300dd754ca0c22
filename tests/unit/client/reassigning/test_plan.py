from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.client.reassigning.plan import (
    Placement,
    PlanError,
    parse_partitions,
    parse_plan,
    parse_topics,
    placed,
    to_json,
)
from minikafka.model import TopicPartition


def entry(**fields: Any) -> dict[str, Any]:
    return {"topic": "orders", "partition": 0, "replicas": [1, 2]} | fields


def document(*entries: Any, **fields: Any) -> str:
    return json.dumps({"version": 1, "partitions": list(entries)} | fields)


@pytest.mark.spec("A1")
def test_a_plan_in_kafkas_form_is_read() -> None:
    text = document(entry(log_dirs=["any", "/data"]), entry(partition=1, replicas=[3]))
    assert parse_plan(text) == {
        TopicPartition("orders", 0): Placement((1, 2), ("any", "/data")),
        TopicPartition("orders", 1): Placement((3,)),
    }
    assert list(Placement((1, 2), ("any", "/data")).directories()) == [(2, "/data")]
    assert list(Placement((1, 2)).directories()) == []
    assert parse_plan(document(entry(comment="to rack b"), comment="and so on"))
    assert parse_plan(json.dumps({"partitions": [entry()]})), "Kafka's tool takes a file without a version, too"


@pytest.mark.spec("A2")
@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "not JSON: "),
        ("[]", "not a JSON object"),
        (document(entry(), version=2), "version is 2; it must be 1"),
        (document(entry(), version=True), "version is True"),
        (document(), "partitions is empty"),
        (json.dumps({"version": 1}), "partitions: missing, or not a list"),
        (document(7), "partitions[0]: not an object: 7"),
        (document(entry(topic=None)), "partitions[0]: topic is None; it must be a name"),
        (document(entry(topic="")), "partitions[0]: topic is ''; it must be a name"),
        (document(entry(partition="0")), "partitions[0] (orders): partition is '0'; it must be a number from 0 on"),
        (document(entry(partition=-1)), "partition is -1"),
        (document(entry(), entry()), "partitions[1] (orders-0): duplicate partition"),
        (document(entry(replicas=[])), "partitions[0] (orders-0): replicas is empty; name at least one broker"),
        (
            document(entry(replicas=[1, 2, 1])),
            "(orders-0): duplicate broker 1 in replicas [1, 2, 1]",
        ),
        (document(entry(replicas=["1"])), "replicas is ['1']; it must be a list of broker ids"),
        (document(entry(replicas=[True])), "it must be a list of broker ids"),
        (document(entry(replicas=None)), "replicas is None; it must be a list of broker ids"),
        pytest.param("[" * 100_000, "not JSON: ", id="deep"),
        (document(entry(log_dirs=["any"])), "log_dirs has 1 entries for 2 replicas; it must have one for each"),
        (document(entry(log_dirs="any")), "log_dirs has 'any' entries"),
        (document(entry(log_dirs=["any", "data"])), "log directory 'data' is neither \"any\" nor an absolute path"),
    ],
)
def test_a_plan_that_is_not_right_is_refused_by_name(text: str, complaint: str) -> None:
    with pytest.raises(PlanError) as raised:
        parse_plan(text)
    assert complaint in str(raised.value)
    assert "\n" not in str(raised.value)


@given(
    st.dictionaries(
        st.builds(TopicPartition, st.text("abc._-", min_size=1, max_size=5), st.integers(0, 100)),
        st.lists(st.integers(0, 1000), unique=True, min_size=1, max_size=5).map(tuple),
        min_size=1,
    )
)
def test_what_is_written_is_read_again(assignment: dict[TopicPartition, tuple[int, ...]]) -> None:
    written = to_json(placed(assignment))
    read = parse_plan(written)
    assert {tp: placement.replicas for tp, placement in read.items()} == assignment
    assert all(set(placement.log_dirs) == {"any"} for placement in read.values())
    assert to_json(read) == written
    assert "\n" not in written


@pytest.mark.spec("A6")
def test_topics_to_move_and_partitions_to_elect_are_read() -> None:
    assert parse_topics('{"version":1,"topics":[{"topic":"b"},{"topic":"a"}]}') == ["b", "a"]
    with pytest.raises(PlanError, match=r"topics\[1\] \(a\): duplicate topic"):
        parse_topics('{"topics":[{"topic":"a"},{"topic":"a"}]}')
    assert parse_partitions('{"partitions":[{"topic":"a","partition":3}]}') == [TopicPartition("a", 3)]
    with pytest.raises(PlanError, match=r"partitions\[1\] \(a-3\): duplicate partition"):
        parse_partitions('{"partitions":[{"topic":"a","partition":3},{"topic":"a","partition":3}]}')
