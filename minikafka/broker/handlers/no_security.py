"""What is said of security, which is not there yet, as Apache Kafka says it where it is not configured."""

from __future__ import annotations

from typing import Final

NO_AUTHORIZER: Final = "No Authorizer is configured: there are no ACLs, and whoever reaches a port may do everything"
"""Tools show it; it begins as in Apache Kafka."""
