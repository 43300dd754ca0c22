"""What an ACL says (KIP-11, KIP-290), and which ones a filter matches. Numbers are those of Kafka's protocol."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple
from uuid import UUID, uuid5

ANY: Final = 1
"""In a filter, as a type, an operation or a permission."""
WILDCARD: Final = "*"
"""As the name of a literal resource: every one. As a host: every one."""
EVERYONE: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""

_NAMESPACE: Final = UUID("6f2c1e2e-52f0-4d8e-9f62-3d0c1f0a7b11")


class ResourceType(IntEnum):
    """What an ACL is about."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How the name of an ACL's resource is meant."""

    MATCH = 2
    """In filters only: whatever holds for a resource of that name."""
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """What somebody does with a resource."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(IntEnum):
    """Whether somebody may."""

    DENY = 2
    ALLOW = 3


class ResourcePattern(NamedTuple):
    """The resources that an ACL is about."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType


class AclBinding(NamedTuple):
    """One ACL: this principal may, or may not, from this host do this with these resources."""

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: AclOperation
    permission: AclPermission

    @property
    def pattern(self) -> ResourcePattern:
        """The resources."""
        return ResourcePattern(self.resource_type, self.resource_name, self.pattern_type)

    @property
    def acl_id(self) -> UUID:
        """Made of what it says: there are no two ACLs that say the same, whoever creates them and when."""
        return uuid5(_NAMESPACE, repr(tuple(int(each) if isinstance(each, IntEnum) else each for each in self)))


class AclFilter(NamedTuple):
    """Selects ACLs; None: any."""

    resource_type: ResourceType | None = None
    resource_name: str | None = None
    pattern_type: PatternType | None = None
    principal: str | None = None
    host: str | None = None
    operation: AclOperation | None = None
    permission: AclPermission | None = None

    def matches(self, acl: AclBinding) -> bool:
        """True when the ACL is selected."""
        return (
            self.resource_type in (None, acl.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (None, acl.operation)
            and self.permission in (None, acl.permission)
            and self._matches_name(acl)
        )

    def _matches_name(self, acl: AclBinding) -> bool:
        name = self.resource_name
        if self.pattern_type is not PatternType.MATCH:
            return self.pattern_type in (None, acl.pattern_type) and name in (None, acl.resource_name)
        if name is None:
            return True
        if acl.pattern_type is PatternType.PREFIXED:
            return name.startswith(acl.resource_name)
        return acl.resource_name in (name, WILDCARD)

    @property
    def only(self) -> AclBinding | None:
        """The one ACL that can match, if the filter names it in full."""
        if None in self or self.pattern_type is PatternType.MATCH:
            return None
        return AclBinding(*self)  # type: ignore[arg-type]  # none of them is None
