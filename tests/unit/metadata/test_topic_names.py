"""Which names a topic may have."""

from __future__ import annotations

import pytest

from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.topic_names import check_topic_name, plain_name


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249, "...", "__consumer_offsets"])
def test_a_legal_topic_name_is_accepted(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../x",
        "/etc",
        "a\0b",
        "x" * 250,
        "a b",
        "ü",
        "a\n",
        "\udcff",
        "__cluster_metadata",
        "a:b",
        "a\\b",
    ],
)
def test_an_illegal_topic_name_is_refused_with_a_short_message(name: str) -> None:
    with pytest.raises(KafkaError) as raised:
        check_topic_name(name)
    assert raised.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert len(raised.value.message) < 200


def test_names_that_differ_in_dots_and_underscores_only_collide() -> None:
    assert plain_name("a.b") == plain_name("a_b") == "a_b"
    assert plain_name("a.b_c") == plain_name("a_b.c") != plain_name("a.b")
    assert plain_name("ab") is None
