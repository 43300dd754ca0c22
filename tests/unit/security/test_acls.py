"""Filters, and what makes two ACLs the same."""

from __future__ import annotations

import pytest

from minikafka.security.acls import AclBinding, AclFilter, AclOperation, AclPermission, PatternType, ResourceType

TOPIC = ResourceType.TOPIC
READ = AclOperation.READ


def acl(name: str, pattern_type: PatternType = PatternType.LITERAL) -> AclBinding:
    return AclBinding(TOPIC, name, pattern_type, "User:alice", "*", READ, AclPermission.ALLOW)


LITERAL, OTHER, WILDCARD = acl("orders"), acl("other"), acl("*")
PREFIX, WHOLE_PREFIX = acl("ord", PatternType.PREFIXED), acl("orders", PatternType.PREFIXED)
ALL = [LITERAL, OTHER, WILDCARD, PREFIX, WHOLE_PREFIX]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (AclFilter(), ALL),
        (AclFilter(resource_type=ResourceType.GROUP), []),
        (AclFilter(resource_name="orders"), [LITERAL, WHOLE_PREFIX]),
        (AclFilter(resource_name="orders", pattern_type=PatternType.LITERAL), [LITERAL]),
        (AclFilter(resource_name="orders", pattern_type=PatternType.MATCH), [LITERAL, WILDCARD, PREFIX, WHOLE_PREFIX]),
        (AclFilter(pattern_type=PatternType.MATCH), ALL),
        (AclFilter(pattern_type=PatternType.PREFIXED), [PREFIX, WHOLE_PREFIX]),
        (AclFilter(resource_name="*", pattern_type=PatternType.LITERAL), [WILDCARD]),
        (AclFilter(principal="User:bob"), []),
        (AclFilter(host="10.0.0.1"), []),
        (AclFilter(operation=AclOperation.DESCRIBE), []),
        (AclFilter(permission=AclPermission.DENY), []),
        (AclFilter(principal="User:alice", host="*", operation=READ, permission=AclPermission.ALLOW), ALL),
    ],
)
def test_filters(wanted: AclFilter, found: list[AclBinding]) -> None:
    assert [each for each in ALL if wanted.matches(each)] == found


def test_a_filter_may_name_one_acl_in_full() -> None:
    assert AclFilter(*LITERAL).only == LITERAL
    assert AclFilter(*LITERAL)._replace(host=None).only is None
    assert AclFilter(*LITERAL)._replace(pattern_type=PatternType.MATCH).only is None


def test_the_id_of_an_acl_is_what_it_says() -> None:
    assert acl("orders").acl_id == LITERAL.acl_id
    assert len({each.acl_id for each in ALL}) == len(ALL)
    assert (
        LITERAL._replace(principal="User:a", host="bc").acl_id != LITERAL._replace(principal="User:ab", host="c").acl_id
    )
