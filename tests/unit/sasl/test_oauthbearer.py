"""OAUTHBEARER: tokens nobody signed, their claims, and the dance with who is refused."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sasl_exchanges import converse

from minikafka.errors import ErrorCode, KafkaError
from minikafka.sasl.jwt import Demands, Token, TokenError, unsecured_claims, unsecured_token
from minikafka.sasl.oauthbearer import OAuthBearerClient, OAuthBearerServer

NOW_MS = 1_000_000
GOOD: dict[str, Any] = {"sub": "alice", "iat": 900, "exp": 1_100.5}


def validate(token: str, demands: Demands | None = None) -> Token:
    return (demands or Demands()).check(unsecured_claims(token), NOW_MS)


def server() -> OAuthBearerServer:
    return OAuthBearerServer(validate)


def test_a_token_lets_in_whom_it_names_until_it_expires() -> None:
    asked = server()
    client = OAuthBearerClient(unsecured_token(GOOD), {"traceId": "1"})
    said = converse(client, asked)
    assert said == [f"n,,\x01auth=Bearer {unsecured_token(GOOD)}\x01traceId=1\x01\x01".encode(), b""]
    assert (asked.user, asked.expires_at_ms) == ("alice", 1_100_500)


@pytest.mark.parametrize(
    "claims",
    [
        {},
        GOOD | {"sub": ""},
        GOOD | {"sub": 7},
        GOOD | {"sub": "a" * 1001},
        GOOD | {"sub": "half a character: \ud800"},
        GOOD | {"exp": 1000},
        GOOD | {"exp": "later"},
        GOOD | {"exp": True},
        GOOD | {"exp": float("inf")},
        GOOD | {"exp": float("nan")},
        GOOD | {"exp": None},
        GOOD | {"nbf": 1001},
        GOOD | {"iat": 1001},
    ],
)
def test_a_bad_token_is_answered_with_a_reason_first(claims: dict[str, Any]) -> None:
    asked = server()
    client = OAuthBearerClient(unsecured_token(claims), {})
    answer = asked.receive(client.first())
    assert json.loads(answer) == {"status": "invalid_token"}
    acknowledged = client.receive(answer)
    assert acknowledged == b"\x01"
    with pytest.raises(KafkaError, match="invalid_token") as refused:
        asked.receive(acknowledged)
    assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert asked.user is None


def test_a_second_token_does_not_help() -> None:
    asked = server()
    asked.receive(OAuthBearerClient(unsecured_token({}), {}).first())
    with pytest.raises(KafkaError):
        asked.receive(OAuthBearerClient(unsecured_token(GOOD), {}).first())
    assert asked.user is None


def test_demands() -> None:
    named = Demands(principal_claim="name", clock_skew_ms=1000)
    assert named.check({"name": "bob", "exp": 999.5, "iat": 1000.9}, NOW_MS) == ("bob", 1_000_500), (
        "as long as it is taken"
    )
    scoped = Demands(scope_claim="scp", scopes=("read", "write"))
    for scopes in ("write read more", ["read", "write"]):
        assert scoped.check(GOOD | {"scp": scopes}, NOW_MS).user == "alice"
    for scopes in ("read", ["write", 7], None, 7):
        with pytest.raises(TokenError) as refused:
            scoped.check(GOOD | {"scp": scopes}, NOW_MS)
        assert refused.value.status == "insufficient_scope"


def part(value: object) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "token",
    [
        "",
        "a",
        "..",
        f"{part({'alg': 'none'})}.{part(GOOD)}",
        f"{part({'alg': 'none'})}.{part(GOOD)}.c2ln",
        f"{part({'alg': 'HS256'})}.{part(GOOD)}.",
        f"{part({})}.{part(GOOD)}.",
        f"{part([])}.{part(GOOD)}.",
        f"{part({'alg': 'none'})}.{part([GOOD])}.",
        f"{part({'alg': 'none'})}.!!!.",
        f"{part({'alg': 'none'})}.{'W1' * 30_000}.",
    ],
)
def test_what_is_no_unsecured_token(token: str) -> None:
    with pytest.raises(TokenError):
        unsecured_claims(token)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,",
        b"n,,\x01auth=Basic x\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer x\x01",
        b"y,,\x01auth=Bearer x\x01\x01",
        b"p=x,,\x01auth=Bearer x\x01\x01",
        b"n,,\x01auth=Bearer x\xff\x01\x01",
    ],
)
def test_malformed_messages_are_refused(message: bytes) -> None:
    with pytest.raises(KafkaError, match="malformed OAUTHBEARER message"):
        server().receive(message)


def test_nobody_acts_for_another() -> None:
    for authorization_id, is_let_in in ((b"alice", True), (b"root", False)):
        asked = server()
        message = b"n,a=%s,\x01auth=Bearer %s\x01\x01" % (authorization_id, unsecured_token(GOOD).encode())
        if is_let_in:
            asked.receive(message)
        else:
            with pytest.raises(KafkaError, match="authorization id"):
                asked.receive(message)
        assert (asked.user is not None) is is_let_in


NUMBERS = st.one_of(st.integers(), st.integers().map(lambda power: 10 ** abs(power % 500)), st.floats())
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, st.text(st.characters(), max_size=3))
CLAIMS = st.dictionaries(
    st.sampled_from(["sub", "exp", "nbf", "iat", "aud", "iss", "scope"]),
    st.one_of(SCALARS, st.lists(SCALARS, max_size=2), st.dictionaries(st.text(max_size=2), SCALARS, max_size=2)),
)


@given(CLAIMS)
def test_whatever_is_claimed_lets_in_somebody_who_can_be_named_or_nobody(claims: dict[str, Any]) -> None:
    demands = Demands(scopes=("read",), audiences=("kafka",), issuer="issuer")
    enough = {"sub": "alice", "exp": 10**400, "iss": "issuer", "aud": "kafka", "scope": "read"}
    with suppress(TokenError):
        user, expires_at_ms = demands.check(unsecured_claims(unsecured_token(enough | claims)), NOW_MS)
        assert user.encode()
        assert NOW_MS < expires_at_ms < 2**63


@given(
    st.one_of(
        st.binary(max_size=80), st.text(max_size=40).map(lambda token: f"n,,\x01auth=Bearer {token}\x01\x01".encode())
    )
)
def test_nothing_breaks_a_server(message: bytes) -> None:
    asked = server()
    with suppress(KafkaError):
        asked.receive(message)
    assert asked.user is None
