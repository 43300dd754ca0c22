"""What requests about ACLs are told on a node without an authorizer, as Apache Kafka tells them."""

from __future__ import annotations

from typing import Final

from minikafka.errors import ErrorCode, KafkaError

NO_AUTHORIZER: Final = KafkaError(
    ErrorCode.SECURITY_DISABLED,
    "No Authorizer is configured: whoever reaches a port may do everything; set authorizer.class.name on each node",
)
"""Tools show it; it begins as in Apache Kafka."""
