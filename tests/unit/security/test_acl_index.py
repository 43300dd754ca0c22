"""An index changes without a trace of what was."""

from __future__ import annotations

from minikafka.security.acl_index import AclIndex, Patterns
from minikafka.security.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourceType

ALICE = AclBinding(
    ResourceType.TOPIC, "ord", PatternType.PREFIXED, "User:alice", "*", AclOperation.READ, AclPermission.ALLOW
)
ALSO_WRITE = ALICE._replace(operation=AclOperation.WRITE)
BOB = ALICE._replace(principal="User:bob")


def test_acls_come_and_go() -> None:
    index = AclIndex().updated([ALICE, ALSO_WRITE, BOB], [])
    assert index.counts == {ResourceType.TOPIC: Patterns({}, {"ord": 3}, (3,))}
    fewer = index.updated([], [ALSO_WRITE])
    assert fewer == AclIndex().updated([ALICE, BOB], [])
    assert fewer.updated([], [ALICE, BOB]) == AclIndex()
    assert index == AclIndex().updated([ALICE, ALSO_WRITE, BOB], []), "the index before stays as it was"


def test_an_index_shares_what_did_not_change() -> None:
    index = AclIndex().updated([ALICE, BOB], [])
    after = index.updated([ALSO_WRITE], [])
    assert after.subjects["User:bob", "*"] is index.subjects["User:bob", "*"]


def test_patterns_are_found_by_the_beginnings_of_a_name() -> None:
    patterns = Patterns({"abc": "literal", "*": "wildcard"}, {"a": "one", "abc": "three", "abcd": "four"}, (1, 3, 4))
    assert list(patterns.holding_for("abc")) == ["literal", "wildcard", "one", "three"]
    assert list(patterns.holding_for("*")) == ["wildcard"]
