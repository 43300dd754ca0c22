"""PLAIN: right and wrong passwords, and what is no message."""

from __future__ import annotations

import hmac as hmac_module

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sasl_exchanges import PASSWORDS, converse

from minikafka.errors import ErrorCode, KafkaError
from minikafka.sasl.plain import WRONG, PlainClient, PlainServer


def server() -> PlainServer:
    return PlainServer(PASSWORDS, b"key")


def refusal(message: bytes) -> str:
    asked = server()
    with pytest.raises(KafkaError) as refused:
        asked.receive(message)
    assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert asked.user is None
    return refused.value.message


@pytest.mark.parametrize("user", PASSWORDS)
def test_who_knows_the_password_gets_in(user: str) -> None:
    asked = server()
    assert converse(PlainClient(user, PASSWORDS[user]), asked)[1:] == [b""]
    assert asked.user == user


def test_a_user_may_name_itself_as_the_one_to_act_for() -> None:
    asked = server()
    asked.receive(b"alice\0alice\0secret")
    assert asked.user == "alice"
    assert "requested an authorization id" in refusal(b"root\0alice\0secret")


@pytest.mark.parametrize("message", [b"\0alice\0wrong", b"\0nobody\0secret", b"root\0alice\0wrong", b"\0alice\0SECRET"])
def test_a_wrong_password_and_an_unknown_user_are_told_the_same(message: bytes) -> None:
    assert refusal(message) == WRONG


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\0",
        b"\0\0",
        b"\0alice",
        b"\0alice\0",
        b"\0\0secret",
        b"\0alice\0secret\0",
        b"alice\0secret",
        b"\0\xff\0x",
    ],
)
def test_malformed_messages_are_refused(message: bytes) -> None:
    assert refusal(message) == "Authentication failed: malformed PLAIN message"


def test_an_unknown_user_takes_the_same_work(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[int, int]] = []
    compare = hmac_module.compare_digest

    def comparing(left: bytes, right: bytes) -> bool:
        compared.append((len(left), len(right)))
        return compare(left, right)

    monkeypatch.setattr(hmac_module, "compare_digest", comparing)
    for message in (b"\0alice\0wrong", b"\0alice\0w", b"\0nobody\0wrong"):
        refusal(message)
    assert compared == [(32, 32)] * 3


@given(st.binary(max_size=60))
def test_nothing_breaks_a_server(message: bytes) -> None:
    asked = server()
    try:
        asked.receive(message)
    except KafkaError:
        assert asked.user is None
    else:
        assert asked.user in PASSWORDS
