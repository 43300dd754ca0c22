"""Whether whoever asks may do something: by ACLs, if there is an authorizer. Without one everyone may do everything.

Nodes may, too: they proved the cluster's secret (docs/decisions/0034). What is denied is told to the log
(``broker.denials``), except where it is looked for what somebody may see.

Answers tell what a client may do with a resource: a bit for each operation, at the position of Kafka's code (KIP-430).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Final

from minikafka.broker.clock import Clock
from minikafka.broker.context import RequestContext
from minikafka.broker.denials import Denials
from minikafka.config import BrokerConfig
from minikafka.metadata.delta import MetadataDelta
from minikafka.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from minikafka.security.authorizer import StandardAuthorizer, bits_of

NOT_ASKED: Final = -(2**31)

_ON_SETTINGS: Final = (AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS)
OPERATIONS: Final[Mapping[ResourceType, tuple[AclOperation, ...]]] = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        *_ON_SETTINGS,
    ),
    ResourceType.GROUP: (AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE, *_ON_SETTINGS),
    ResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.IDEMPOTENT_WRITE,
        *_ON_SETTINGS,
    ),
}
"""What there is to do with a resource, as answers tell it."""
_ALL_BITS: Final = {kind: bits_of(*operations) for kind, operations in OPERATIONS.items()}


class Authorizer:
    """The rights of clients on this node."""

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        self._clock = clock
        self._denials = Denials()
        self._standard = StandardAuthorizer(
            config.super_users, allow_everyone_if_no_acl_found=config.allow_everyone_if_no_acl_found
        )
        self.is_enabled = config.authorizer_class_name is not None

    def prepare(self, delta: MetadataDelta) -> Generator[None, None, None]:
        """Get ready for it, in steps."""
        if self.is_enabled:
            yield from self._standard.prepare(delta.after.acls)

    def on_metadata(self, delta: MetadataDelta) -> None:
        """ACLs may have changed."""
        if self.is_enabled:
            self._standard.update(delta.after.acls)

    def is_allowed(self, user: str, host: str, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        """Whether a client with that user and address may do this."""
        return not self.is_enabled or self._standard.is_allowed(user, host, operation, resource_type, name)

    def sees(self, context: RequestContext, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        """Whether whoever asks may do this. A denial is not logged: nothing is refused for it."""
        connection = context.connection
        if not self.is_enabled or connection.principal is not None:
            return True
        return self._standard.is_allowed(connection.user, connection.peer_host, operation, resource_type, name)

    def permits(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str = CLUSTER_NAME,
    ) -> bool:
        """Whether whoever asks may do this."""
        if self.sees(context, operation, resource_type, name):
            return True
        self.deny(context, operation, resource_type, name)
        return False

    def permits_on_any(self, context: RequestContext, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether there may be a resource of that type with which whoever asks may do this. A denial is not logged."""
        if not self.is_enabled or context.is_replica:
            return True
        connection = context.connection
        return self._standard.is_allowed_on_any(connection.user, connection.peer_host, operation, resource_type)

    def deny(
        self, context: RequestContext, operation: AclOperation, resource_type: ResourceType, name: str = CLUSTER_NAME
    ) -> None:
        """Note that it was denied."""
        connection = context.connection
        now_s = self._clock.monotonic_ms() / 1000
        self._denials.note(now_s, connection.user, connection.peer_host, operation, resource_type, name)

    def operations(self, context: RequestContext, resource_type: ResourceType, name: str = CLUSTER_NAME) -> int:
        """What whoever asks may do with the resource, as an answer has it."""
        if not self.is_enabled:
            return _ALL_BITS[resource_type]
        return bits_of(*(each for each in OPERATIONS[resource_type] if self.sees(context, each, resource_type, name)))

    def operations_on_cluster(self, context: RequestContext) -> int:
        """The same, of the cluster: nothing to who may not describe it."""
        if not self.sees(context, AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
            return 0
        return self.operations(context, ResourceType.CLUSTER)
