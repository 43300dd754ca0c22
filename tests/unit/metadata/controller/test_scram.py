"""SCRAM credentials of users (KIP-554)."""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.errors import ErrorCode
from minikafka.metadata.controller import scram as controller_scram
from minikafka.metadata.records import UserScramCredentialRecord
from minikafka.metadata.snapshot import snapshot_records
from minikafka.sasl.scram import ScramMechanism, credential_of
from minikafka.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

SHA_256, SHA_512 = ScramMechanism
SALTED = {SHA_256: b"s" * 32, SHA_512: b"s" * 64}


def upsertion(user: str, mechanism: int = SHA_256, **changes: Any) -> ScramCredentialUpsertion:
    salted = SALTED.get(ScramMechanism(mechanism), b"") if mechanism in SALTED else b""
    fields = {"name": user, "mechanism": mechanism, "iterations": 4096, "salt": b"salt", "salted_password": salted}
    return ScramCredentialUpsertion(**fields | changes)


def deletion(user: str, mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=user, mechanism=mechanism)


def alter(cluster: Any, *changes: ScramCredentialUpsertion | ScramCredentialDeletion) -> dict[str, ErrorCode]:
    request = AlterUserScramCredentialsRequest(
        deletions=[each for each in changes if isinstance(each, ScramCredentialDeletion)],
        upsertions=[each for each in changes if isinstance(each, ScramCredentialUpsertion)],
    )
    return {each.user: ErrorCode.of(each.error_code) for each in cluster.ask(request).results}


def test_credentials_are_set_changed_and_removed(cluster: Any) -> None:
    assert alter(cluster, upsertion("alice"), upsertion("bob", SHA_512)) == {"alice": 0, "bob": 0}
    expected = credential_of(SHA_256, SALTED[SHA_256], b"salt", 4096)
    assert cluster.image.scram_credential("alice", SHA_256) == expected
    assert cluster.image.scram_credential("alice", SHA_512) is None
    assert alter(cluster, upsertion("alice", SHA_512), deletion("bob", SHA_512)) == {"alice": 0, "bob": 0}
    assert set(cluster.image.scram_credentials["alice"]) == {SHA_256, SHA_512}
    assert "bob" not in cluster.image.scram_credentials
    cluster.fail_over()
    assert alter(cluster, upsertion("alice", iterations=16384)) == {"alice": 0}
    changed = cluster.image.scram_credential("alice", SHA_256)
    assert changed is not None
    assert changed.iterations == 16384
    assert set(cluster.image.scram_credentials["alice"]) == {SHA_256, SHA_512}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (upsertion("", SHA_256), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("x" * 1001), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("a", iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("a", iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("a", salt=b""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("a", salt=bytes(1001)), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("a", salted_password=b"s" * 31), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion("a", 0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion("a", 3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (deletion("a", 3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (deletion(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (deletion("nobody"), ErrorCode.RESOURCE_NOT_FOUND),
        (deletion("alice", SHA_512), ErrorCode.RESOURCE_NOT_FOUND),
    ],
)
def test_what_is_refused_changes_nothing_and_lets_others_pass(cluster: Any, change: Any, error: ErrorCode) -> None:
    alter(cluster, upsertion("alice"))
    before = cluster.image.scram_credentials
    assert alter(cluster, change, upsertion("bob")) == {change.name: error, "bob": 0}
    assert {user: each for user, each in cluster.image.scram_credentials.items() if user != "bob"} == before


def test_a_user_is_named_once(cluster: Any) -> None:
    alter(cluster, upsertion("alice"))
    for twice in (
        (deletion("alice"), deletion("alice")),
        (deletion("alice"), upsertion("alice")),
        (upsertion("alice"), upsertion("alice", SHA_512)),
    ):
        assert alter(cluster, *twice, upsertion("bob")) == {"alice": ErrorCode.DUPLICATE_RESOURCE, "bob": 0}
    assert set(cluster.image.scram_credentials["alice"]) == {SHA_256}


def test_there_may_be_so_many_users(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_scram, "USERS_MAX", 2)
    assert alter(cluster, *map(upsertion, "abc")) == {"a": 0, "b": 0, "c": ErrorCode.POLICY_VIOLATION}
    assert alter(cluster, upsertion("a", SHA_512)) == {"a": 0}


def test_no_text_shows_a_key(cluster: Any) -> None:
    request = AlterUserScramCredentialsRequest(upsertions=[upsertion("alice", salt=b"salt")])
    cluster.ask(request)
    (record,) = [each for each in snapshot_records(cluster.image) if isinstance(each, UserScramCredentialRecord)]
    for text in (repr(request), repr(record), repr(cluster.image)):
        assert "alice" in text
        assert not any(each in text for each in ("b'sss", "b'salt", repr(record.stored_key), repr(record.server_key)))
