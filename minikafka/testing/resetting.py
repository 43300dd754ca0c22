"""A cluster as it was when it was new: all that clients made is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final
from uuid import UUID

from minikafka.client import Admin, Security
from minikafka.client.admin.configs import ALL_BROKERS, BROKER_RESOURCE, GROUP_RESOURCE, SOURCE_ALL_BROKERS

SETTINGS: Final = {"delete.internal.topics.enable": "true"}
"""What the brokers must allow."""
_SOURCES: Final = {BROKER_RESOURCE: 2, GROUP_RESOURCE: 8}
"""Kafka's number for a setting that was changed on a resource itself, by its type."""


async def delete_everything(bootstrap_servers: str, security: Security, brokers: Iterable[int]) -> frozenset[UUID]:
    """Topics with groups, offsets and transactional ids; quotas; settings of groups and brokers; levels of features.

    Returns the ids of the topics. There may be others of the same names at once: clients create what they miss.
    """
    async with Admin(bootstrap_servers, security=security) as admin:
        topics, quotas, groups, features = await asyncio.gather(
            admin.list_topics(internal=True),
            admin.describe_quotas(),
            admin.list_config_resources(GROUP_RESOURCE),
            admin.describe_features(),
        )
        if topics:
            await admin.delete_topics(topic.name for topic in topics)
        for entity, values in quotas.items():
            await admin.alter_quotas(entity, dict.fromkeys(values))
        for group in groups:
            await _take_back(admin, GROUP_RESOURCE, group)
        for broker in (ALL_BROKERS, *map(str, brokers)):
            await _take_back(admin, BROKER_RESOURCE, broker)
        lowered = {name: each.highest for name, each in features.items() if each.level < each.highest}
        if lowered:
            await admin.update_features(lowered)
    return frozenset(topic.topic_id for topic in topics)


async def _take_back(admin: Admin, kind: int, name: str) -> None:
    source = SOURCE_ALL_BROKERS if name == ALL_BROKERS else _SOURCES[kind]
    changed = [entry.name for entry in await admin.describe_resource(kind, name) if entry.source == source]
    if changed:
        await admin.alter_resource(kind, name, dict.fromkeys(changed))
