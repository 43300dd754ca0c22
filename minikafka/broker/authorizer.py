"""What a client may do with a resource (KIP-430): without an authorizer, all that there is to do with it, as in Kafka.

An answer has a bit for each operation, at the position of Kafka's code for it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class AclOperation(IntEnum):
    """Operations on resources, as ACLs name them."""

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


def bits_of(*operations: AclOperation) -> int:
    """As an answer has them."""
    return sum(1 << operation for operation in operations)


_ON_SETTINGS: Final = (AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS)

NOT_ASKED: Final = -(2**31)
ON_TOPIC: Final = bits_of(
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DELETE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    *_ON_SETTINGS,
)
ON_GROUP: Final = bits_of(AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE, *_ON_SETTINGS)
ON_CLUSTER: Final = bits_of(
    AclOperation.CREATE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.CLUSTER_ACTION,
    AclOperation.IDEMPOTENT_WRITE,
    *_ON_SETTINGS,
)
