"""Clients with the settings of a query."""

from __future__ import annotations

from minikafka.client import Admin, Consumer, Producer
from minikafka.spark.options import ClientSettings


def admin_of(settings: ClientSettings) -> Admin:
    """An admin client. Its requests may take ``max_block_ms``."""
    return Admin(
        settings.bootstrap_servers,
        client_id=settings.client_id,
        security=settings.security,
        request_timeout_ms=settings.max_block_ms,
    )


def consumer_of(settings: ClientSettings) -> Consumer:
    """A consumer without a group and without ``auto.offset.reset``: the caller assigns and seeks."""
    return Consumer(
        settings.bootstrap_servers,
        client_id=settings.client_id,
        security=settings.security,
        client_rack=settings.client_rack,
        auto_offset_reset="none",
        isolation_level=settings.isolation_level,
        fetch_max_wait_ms=settings.fetch_max_wait_ms,
        fetch_min_bytes=settings.fetch_min_bytes,
        fetch_max_bytes=settings.fetch_max_bytes,
        max_partition_fetch_bytes=settings.max_partition_fetch_bytes,
        check_crcs=settings.check_crcs,
        request_timeout_ms=settings.request_timeout_ms,
        max_block_ms=settings.max_block_ms,
    )


def producer_of(settings: ClientSettings) -> Producer:
    """A producer for encoded batches."""
    return Producer(
        settings.bootstrap_servers,
        client_id=settings.client_id,
        security=settings.security,
        linger_ms=settings.linger_ms,
        buffer_bytes=settings.buffer_bytes,
        max_request_bytes=settings.max_request_bytes,
        request_timeout_ms=settings.request_timeout_ms,
        delivery_timeout_ms=settings.delivery_timeout_ms,
        max_block_ms=settings.max_block_ms,
    )
