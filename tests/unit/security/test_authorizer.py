"""Decisions, against the rules read over all ACLs one by one; and what Kafka's documentation says in words."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from uuid import UUID

import pytest
import security_naive as naive
from hypothesis import given
from hypothesis import strategies as st

from minikafka.security import authorizer as module
from minikafka.security.acl_index import AclIndex
from minikafka.security.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from minikafka.security.authorizer import StandardAuthorizer

ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER

names = st.text("ab", min_size=1, max_size=3) | st.just("*")
users = st.sampled_from(["alice", "bob", "*"])
principals = users.map("User:{}".format)
hosts = st.sampled_from(["10.0.0.1", "10.0.0.2", "*"])
operations = st.sampled_from(
    [
        AclOperation.ALL,
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DESCRIBE,
        AclOperation.ALTER_CONFIGS,
        AclOperation.DESCRIBE_CONFIGS,
    ]
)
types = st.sampled_from([TOPIC, GROUP])
bindings = st.builds(
    AclBinding,
    types,
    names,
    st.sampled_from([LITERAL, PREFIXED]),
    principals,
    hosts,
    operations,
    st.sampled_from([ALLOW, ALLOW, DENY]),
)


def by_id(acls: Iterable[AclBinding]) -> dict[UUID, AclBinding]:
    return {acl.acl_id: acl for acl in acls}


def allow(
    operation: AclOperation,
    name: str = "orders",
    *,
    pattern: PatternType = LITERAL,
    of: ResourceType = TOPIC,
    to: str = "User:alice",
    host: str = "*",
    permission: AclPermission = ALLOW,
) -> AclBinding:
    return AclBinding(of, name, pattern, to, host, operation, permission)


def told(*acls: AclBinding, super_users: tuple[str, ...] = (), allow_everyone: bool = False) -> StandardAuthorizer:
    authorizer = StandardAuthorizer(super_users, allow_everyone_if_no_acl_found=allow_everyone)
    authorizer.update(by_id(acls))
    return authorizer


@given(
    st.lists(st.lists(bindings, max_size=12), min_size=1, max_size=3),
    st.booleans(),
    st.lists(st.tuples(users, hosts, operations, types, names), min_size=1, max_size=10),
)
def test_decides_as_the_rules_say(
    steps: list[list[AclBinding]],
    allow_everyone: bool,
    questions: list[tuple[str, str, AclOperation, ResourceType, str]],
) -> None:
    authorizer = StandardAuthorizer(allow_everyone_if_no_acl_found=allow_everyone)
    for acls in steps:  # each differs from the one before: the index is updated, and old decisions are forgotten
        authorizer.update(by_id(acls))
        for question in [*questions, *questions]:
            expected = naive.is_allowed(acls, f"User:{question[0]}", *question[1:], allow_everyone=allow_everyone)
            assert authorizer.is_allowed(*question) is expected
            on_any = naive.is_allowed_on_any(
                acls, f"User:{question[0]}", *question[1:-1], allow_everyone=allow_everyone
            )
            assert authorizer.is_allowed_on_any(*question[:-1]) is on_any


@given(st.lists(st.lists(bindings, max_size=12), min_size=2, max_size=4))
def test_an_updated_index_is_the_one_made_anew(steps: list[list[AclBinding]]) -> None:
    authorizer = StandardAuthorizer()
    for acls in steps:
        authorizer.update(by_id(acls))
        assert authorizer._index == told(*acls)._index


@given(st.lists(st.tuples(st.lists(bindings, max_size=12), st.integers(0, 40)), min_size=2, max_size=5))
def test_what_was_prepared_and_did_not_come_leaves_no_trace(steps: list[tuple[list[AclBinding], int]]) -> None:
    """A snapshot may come in the middle of it."""
    authorizer = StandardAuthorizer()
    for acls, count in steps:
        new = by_id(acls)
        left = len([*islice(authorizer.prepare(new), count)]) == count
        if not left:
            authorizer.update(new)
            assert authorizer._index == told(*acls)._index
    authorizer.update(by_id(steps[0][0]))
    assert authorizer._index == told(*steps[0][0])._index


def test_an_update_that_was_prepared_has_nothing_left_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """10,000 ACLs from a snapshot kept the loop busy for a tenth of a second."""
    acls = by_id(allow(AclOperation.READ, f"topic-{number}") for number in range(50))
    authorizer = StandardAuthorizer()
    assert sum(1 for _ in authorizer.prepare(acls)) == 100
    monkeypatch.setattr(AclIndex, "updating", None)
    authorizer.update(acls)
    assert authorizer.is_allowed("alice", "h", AclOperation.READ, TOPIC, "topic-7")


def test_nobody_may_without_acls() -> None:
    assert not told().is_allowed("alice", "h", AclOperation.READ, TOPIC, "orders")


def test_a_super_user_may_whatever_is_denied() -> None:
    authorizer = told(allow(AclOperation.ALL, "*", to="User:*", permission=DENY), super_users=("User:root",))
    assert authorizer.is_allowed("root", "h", AclOperation.READ, TOPIC, "orders")
    assert authorizer.is_allowed_on_any("root", "h", AclOperation.WRITE, TOPIC)
    assert not authorizer.is_allowed("alice", "h", AclOperation.READ, TOPIC, "orders")


def test_a_denial_wins_and_implies_nothing() -> None:
    authorizer = told(allow(AclOperation.ALL), allow(AclOperation.READ, permission=DENY))
    assert not authorizer.is_allowed("alice", "h", AclOperation.READ, TOPIC, "orders")
    assert authorizer.is_allowed("alice", "h", AclOperation.DESCRIBE, TOPIC, "orders")


def test_a_resource_with_an_acl_for_somebody_else_is_not_everyones() -> None:
    authorizer = told(allow(AclOperation.READ, to="User:bob"), allow_everyone=True)
    assert not authorizer.is_allowed("alice", "h", AclOperation.READ, TOPIC, "orders")
    assert authorizer.is_allowed("alice", "h", AclOperation.READ, TOPIC, "others")
    assert authorizer.is_allowed("alice", "h", AclOperation.READ, GROUP, "orders")


def test_a_host_is_an_address_or_every_one() -> None:
    authorizer = told(allow(AclOperation.READ, host="10.0.0.1"))
    assert authorizer.is_allowed("alice", "10.0.0.1", AclOperation.READ, TOPIC, "orders")
    assert not authorizer.is_allowed("alice", "10.0.0.2", AclOperation.READ, TOPIC, "orders")


def test_the_wildcard_is_literal_and_a_prefix_is_a_beginning() -> None:
    authorizer = told(allow(AclOperation.READ, "*", of=GROUP), allow(AclOperation.READ, "ord", pattern=PREFIXED))
    assert authorizer.is_allowed("alice", "h", AclOperation.READ, GROUP, "any")
    assert authorizer.is_allowed("alice", "h", AclOperation.READ, TOPIC, "ord")
    assert authorizer.is_allowed("alice", "h", AclOperation.READ, TOPIC, "orders")
    assert not authorizer.is_allowed("alice", "h", AclOperation.READ, TOPIC, "or")


def test_decisions_are_forgotten_when_there_are_many() -> None:
    authorizer = told(allow(AclOperation.READ))
    for number in range(module.CACHED_MAX + 10):
        authorizer.is_allowed("alice", str(number), AclOperation.READ, TOPIC, "orders")
    assert len(authorizer._decisions) <= module.CACHED_MAX


def test_decisions_about_names_that_are_too_long_are_not_remembered() -> None:
    authorizer = StandardAuthorizer(("User:root",))
    for user, may in (("alice", False), ("root", True)):
        assert authorizer.is_allowed(user, "h", AclOperation.READ, TOPIC, "x" * 32_767) is may
    assert not authorizer._decisions
