"""The states of a connection: every order of handshakes, messages and times."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.errors import ErrorCode, KafkaError
from minikafka.sasl.exchange import refuse
from minikafka.sasl.login import Login, Mechanism


class Said:
    """An exchange of one message: the user's name; ``NAME until T`` expires, ``more`` asks for more, b"" fails."""

    def __init__(self) -> None:
        self.user: str | None = None
        self.expires_at_ms: int | None = None

    def receive(self, token: bytes) -> bytes:
        name, _, until = token.decode().partition(" until ")
        if not name:
            refuse("no")
        if name != "more":
            self.user = name
            self.expires_at_ms = int(until) if until else None
        return b"answer"


def login(session_max_ms: int = 0) -> Login:
    return Login({"A": Mechanism(Said, session_max_ms), "B": Mechanism(Said, session_max_ms)})


def said(login: Login, token: bytes, now_ms: int = 0, wall_ms: int = 0) -> ErrorCode | int:
    """The error, or the lifetime."""
    try:
        return login.receive(token, now_ms, wall_ms).session_lifetime_ms
    except KafkaError as error:
        return error.code


def begun(login: Login, mechanism: str = "A", now_ms: int = 0) -> ErrorCode:
    try:
        login.begin(mechanism, now_ms)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def test_a_stranger_becomes_a_user() -> None:
    one = login()
    assert not one.is_complete
    assert said(one, b"alice") is ErrorCode.ILLEGAL_SASL_STATE
    assert begun(one) is ErrorCode.NONE
    assert one.is_under_way
    assert said(one, b"more") == 0
    assert not one.is_complete
    assert said(one, b"alice") == 0
    assert (one.is_complete, one.user, one.expires_at_ms, one.is_under_way) == (True, "alice", None, False)


def test_who_fails_does_not_become_one() -> None:
    one = login()
    begun(one)
    assert said(one, b"") is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert not one.is_complete
    assert begun(one) is ErrorCode.ILLEGAL_SASL_STATE


def test_other_mechanisms_are_refused() -> None:
    one = login()
    assert begun(one, "PLAIN") is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert one.offered == ["A", "B"]
    assert not one.is_under_way


def test_without_an_end_a_session_is_not_renewed() -> None:
    one = login()
    begun(one)
    said(one, b"alice")
    assert begun(one) is ErrorCode.ILLEGAL_SASL_STATE
    assert said(one, b"alice") is ErrorCode.ILLEGAL_SASL_STATE
    assert one.is_complete


@pytest.mark.parametrize(
    ("session_max_ms", "token", "lifetime_ms"),
    [
        (0, b"alice", 0),
        (500, b"alice", 500),
        (0, b"alice until 300", 200),
        (500, b"alice until 300", 200),
        (100, b"alice until 300", 100),
        (0, b"alice until 50", 0),
    ],
)
def test_a_session_ends_with_the_first_of_both(session_max_ms: int, token: bytes, lifetime_ms: int) -> None:
    one = login(session_max_ms)
    begun(one)
    assert said(one, token, now_ms=7_000, wall_ms=100) == lifetime_ms
    has_end = session_max_ms or b"until" in token
    assert one.expires_at_ms == (7_000 + lifetime_ms if has_end else None)


def test_a_session_is_renewed_by_the_same_user_with_the_same_mechanism() -> None:
    one = login(10_000)
    begun(one)
    said(one, b"alice")
    assert begun(one, "A", 5_000) is ErrorCode.NONE
    assert not one.is_complete, "nothing else may be asked meanwhile"
    assert said(one, b"alice", 5_100) == 10_000
    assert one.expires_at_ms == 15_100
    assert begun(one, "A", 5_900) is ErrorCode.ILLEGAL_SASL_STATE, "not more than once a second"
    assert one.is_complete
    for mechanism, token in (("B", b"alice"), ("A", b"bob"), ("A", b"")):
        again = login(10_000)
        begun(again)
        said(again, b"alice")
        assert begun(again, mechanism, 2_000) is ErrorCode.NONE
        assert said(again, token, 2_000) is ErrorCode.SASL_AUTHENTICATION_FAILED
        assert not again.is_complete


def test_a_mechanism_that_is_unknown_ends_a_session() -> None:
    one = login(10_000)
    begun(one)
    said(one, b"alice")
    assert begun(one, "PLAIN", 5_000) is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert not one.is_complete


@given(
    st.lists(
        st.one_of(st.sampled_from(["A", "B", "C"]), st.sampled_from([b"", b"more", b"alice", b"bob", b"bob until 9"])),
        max_size=12,
    ),
    st.sampled_from([0, 3_000]),
)
def test_nobody_is_in_who_was_not_proved(steps: list[str | bytes], session_max_ms: int) -> None:
    """A naive twin: complete only after a message with a name, of an exchange that had begun, as the same user."""
    one = login(session_max_ms)
    user, mechanism = None, None
    is_open = is_in = changed = is_dead = False
    for number, step in enumerate(steps):
        before = (is_open, is_in)
        code = begun(one, step, number * 1_500) if isinstance(step, str) else said(one, step, number * 1_500)
        if isinstance(step, str):
            may = not is_open and (not is_in or one.expires_at_ms is not None)
            if may and step != "C":
                is_open, is_in = True, False
                mechanism = mechanism or step
                changed = step != mechanism
            elif may:
                is_in = False
        elif is_open and isinstance(code, ErrorCode):
            is_dead = True
        elif is_open and step != b"more":
            assert not changed
            assert not is_dead
            name = step.decode().partition(" ")[0]
            assert user in (None, name)
            user, is_open, is_in = name, False, True
        assert (one.is_complete, one.user) == (is_in, user), (before, step)
