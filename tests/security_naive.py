"""The rules of StandardAuthorizer and of its default ``authorizeByResourceType``, read over all ACLs one by one."""

from __future__ import annotations

from collections.abc import Collection

from minikafka.security.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourceType

IMPLIES_DESCRIBE = {
    AclOperation.DESCRIBE,
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.DELETE,
    AclOperation.ALTER,
}
IMPLIES_DESCRIBE_CONFIGS = {AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS}


def is_about(acl: AclBinding, resource_type: ResourceType, name: str) -> bool:
    if acl.resource_type != resource_type:
        return False
    if acl.pattern_type is PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in ("*", name)


def is_for(acl: AclBinding, principal: str, host: str) -> bool:
    return acl.principal in (principal, "User:*") and acl.host in (host, "*")


def decides(acl: AclBinding, operation: AclOperation) -> bool:
    if acl.operation is AclOperation.ALL:
        return True
    if acl.permission is AclPermission.ALLOW and operation is AclOperation.DESCRIBE:
        return acl.operation in IMPLIES_DESCRIBE
    if acl.permission is AclPermission.ALLOW and operation is AclOperation.DESCRIBE_CONFIGS:
        return acl.operation in IMPLIES_DESCRIBE_CONFIGS
    return acl.operation is operation


def is_allowed(
    acls: Collection[AclBinding],
    principal: str,
    host: str,
    operation: AclOperation,
    resource_type: ResourceType,
    name: str,
    *,
    allow_everyone: bool,
) -> bool:
    about = [acl for acl in acls if is_about(acl, resource_type, name)]
    if not about:
        return allow_everyone
    deciding = [acl for acl in about if is_for(acl, principal, host) and decides(acl, operation)]
    if any(acl.permission is AclPermission.DENY for acl in deciding):
        return False
    return bool(deciding)


def is_allowed_on_any(
    acls: Collection[AclBinding],
    principal: str,
    host: str,
    operation: AclOperation,
    resource_type: ResourceType,
    *,
    allow_everyone: bool,
) -> bool:
    if is_allowed(acls, principal, host, operation, resource_type, "hardcode", allow_everyone=allow_everyone):
        return True
    its = [
        acl
        for acl in acls
        if acl.resource_type is resource_type
        and is_for(acl, principal, host)
        and acl.operation in (operation, AclOperation.ALL)
    ]
    denied = [acl for acl in its if acl.permission is AclPermission.DENY]
    allowed = [acl for acl in its if acl.permission is AclPermission.ALLOW]
    literal = {acl.resource_name for acl in denied if acl.pattern_type is PatternType.LITERAL}
    prefixes = tuple(acl.resource_name for acl in denied if acl.pattern_type is PatternType.PREFIXED)
    if "*" in literal:
        return False
    for acl in allowed:
        is_literal = acl.pattern_type is PatternType.LITERAL
        if is_literal and acl.resource_name == "*":
            return True
        if is_literal and acl.resource_name in literal:
            continue
        if not acl.resource_name.startswith(prefixes):
            return True
    return False
