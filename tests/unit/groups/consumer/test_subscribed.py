"""What members subscribe to, counted; and how much of it a group takes."""

from __future__ import annotations

import pytest
from consumer_driver import ConsumerDriver

from minikafka.errors import ErrorCode
from minikafka.groups.consumer.records import ClassicMetadata, Subscription
from minikafka.groups.consumer.subscribed import MEMBER_BYTES, REGEX_BYTES, Subscribed


def test_what_nobody_wants_any_more_is_forgotten() -> None:
    subscribed = Subscribed()
    one, other = Subscription(topic_names=("t", "u")), Subscription(topic_names=("u",), topic_regex="x.*")
    subscribed.add("a", one)
    subscribed.add("b", other)
    assert subscribed.topics == {"t": 1, "u": 2}
    assert subscribed.regexes == {"x.*": 1}
    assert len(subscribed.kinds) == 2
    subscribed.remove("a", one)
    assert subscribed.topics == {"u": 1}
    subscribed.remove("b", other)
    assert subscribed == Subscribed()


def test_a_protocol_that_all_classic_members_have() -> None:
    subscribed = Subscribed()
    one = Subscription(classic=ClassicMetadata(1, (("range", b""), ("range", b""), ("sticky", b""))))
    other, newer = Subscription(classic=ClassicMetadata(1, (("range", b""),))), Subscription()
    for name, each in (("a", one), ("b", other), ("c", newer)):
        subscribed.add(name, each)
    assert (subscribed.classic, subscribed.protocols) == (2, {"range": 2, "sticky": 1})
    for but, common in ((None, ["range"]), (newer, ["range"]), (one, ["range"]), (other, ["range", "sticky"])):
        assert [name for name in ("range", "sticky", "x") if subscribed.have_protocol(name, but)] == common
    for name, each in (("a", one), ("b", other), ("c", newer)):
        subscribed.remove(name, each)
    assert subscribed == Subscribed()
    assert subscribed.have_protocol("x", None), "nobody is against it"


def test_the_size_after_a_change() -> None:
    subscribed = Subscribed()
    before, after = Subscription(topic_regex="x.*"), Subscription(topic_names=("t" * 100,))
    subscribed.add("a", before)
    assert subscribed.size_with("b", None, before) == 2 * subscribed.size + REGEX_BYTES, "an expression counts once"
    assert subscribed.size_with("b", None, after) > 2 * MEMBER_BYTES + REGEX_BYTES + 100
    assert subscribed.size_with("a", before, before) == subscribed.size + REGEX_BYTES


@pytest.mark.spec("G6")
def test_expressions_of_a_group_are_few() -> None:
    """Each may match all topics of the cluster."""
    driver = ConsumerDriver(subscriptions_bytes_max=4 * REGEX_BYTES)
    found = [driver.beat(f"m{number}", regex=f"t|x{number}").error_code for number in range(5)]
    assert found == [0, 0, 0, ErrorCode.GROUP_MAX_SIZE_REACHED, ErrorCode.GROUP_MAX_SIZE_REACHED]
    assert driver.beat("n", regex="t|x0").error_code == 0


@pytest.mark.spec("G6")
def test_members_of_a_group_are_bounded_in_memory() -> None:
    driver = ConsumerDriver(subscriptions_bytes_max=10 * MEMBER_BYTES)
    found = [driver.beat("m" * 100 + str(number)).error_code for number in range(10)]
    assert found[:7] == [0] * 7
    assert found[-1] == ErrorCode.GROUP_MAX_SIZE_REACHED
