"""ACLs and filters of requests, checked; and ACLs as answers have them."""

from __future__ import annotations

from enum import IntEnum
from ipaddress import ip_address
from typing import Final, TypeVar

from minikafka.errors import ErrorCode, KafkaError
from minikafka.security.acls import (
    ANY,
    CLUSTER_NAME,
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from minikafka.wire.messages.create_acls import AclCreation
from minikafka.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsMatchingAcl
from minikafka.wire.messages.describe_acls import DescribeAclsRequest

NAME_MAX: Final = 1000
"""Characters of a name, a principal or a host: each node keeps them all."""

E = TypeVar("E", bound=IntEnum)


def acl_of(creation: AclCreation) -> AclBinding:
    """The ACL to be created. KafkaError(INVALID_REQUEST) if there can be none like it."""
    resource_type = _known(ResourceType, creation.resource_type, "resource type")
    pattern_type = _known(PatternType, creation.resource_pattern_type, "pattern type")
    if pattern_type is PatternType.MATCH:
        raise _invalid("pattern type MATCH is for filters; an ACL is LITERAL or PREFIXED")
    acl = AclBinding(
        resource_type,
        creation.resource_name,
        pattern_type,
        creation.principal,
        _host(creation.host),
        _known(AclOperation, creation.operation, "operation"),
        _known(AclPermission, creation.permission_type, "permission type"),
    )
    for what, text in (("resource name", acl.resource_name), ("principal", acl.principal), ("host", acl.host)):
        if not 0 < len(text) <= NAME_MAX:
            raise _invalid(f"a {what} has 1 to {NAME_MAX} characters")
    if ":" not in acl.principal:
        raise _invalid(f"principal {acl.principal!r} has no type; write it as User:name")
    if acl.resource_type is ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        raise _invalid(f"the only name of a CLUSTER resource is {CLUSTER_NAME}, not {acl.resource_name!r}")
    return acl


def filter_of(wanted: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    """The filter. KafkaError(INVALID_REQUEST) if it names what is not known."""
    return AclFilter(
        _known_or_any(ResourceType, wanted.resource_type_filter, "resource type"),
        wanted.resource_name_filter,
        _known_or_any(PatternType, wanted.pattern_type_filter, "pattern type"),
        wanted.principal_filter,
        None if wanted.host_filter is None else _host(wanted.host_filter),
        _known_or_any(AclOperation, wanted.operation, "operation"),
        _known_or_any(AclPermission, wanted.permission_type, "permission type"),
    )


def deleted_acl(matching: DeleteAclsMatchingAcl) -> AclBinding:
    """The ACL that was deleted. KafkaError(INVALID_REQUEST) if there can be none like it."""
    return AclBinding(
        _known(ResourceType, matching.resource_type, "resource type"),
        matching.resource_name,
        _known(PatternType, matching.pattern_type, "pattern type"),
        matching.principal,
        matching.host,
        _known(AclOperation, matching.operation, "operation"),
        _known(AclPermission, matching.permission_type, "permission type"),
    )


def matching_acl(acl: AclBinding) -> DeleteAclsMatchingAcl:
    """The ACL as an answer names it that was deleted."""
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _host(text: str) -> str:
    """An address as sockets write it: Java, and so ACLs for Apache Kafka, has ``0:0:0:0:0:0:0:1`` for ``::1``. No
    socket takes connections of both families, so that none comes from ``::ffff:10.0.0.7``."""
    try:
        address = ip_address(text)
        return str(getattr(address, "ipv4_mapped", None) or address)
    except ValueError:
        return text  # all of them, or one that nobody connects from


def _known_or_any(kind: type[E], number: int, what: str) -> E | None:
    return None if number == ANY else _known(kind, number, what)


def _known(kind: type[E], number: int, what: str) -> E:
    try:
        return kind(number)
    except ValueError:
        raise _invalid(f"{what} {number} is unknown; there are {', '.join(each.name for each in kind)}") from None


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
