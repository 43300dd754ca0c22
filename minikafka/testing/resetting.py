"""A cluster as it was when it was new: all that clients made is gone."""

from __future__ import annotations

import asyncio
from typing import Final
from uuid import UUID

from minikafka.broker.loggers import ROOT, RootLogger
from minikafka.chaos.layout import ClusterLayout
from minikafka.chaos.logins import MECHANISM, USER, USERS
from minikafka.client import Admin
from minikafka.client.admin import ScramDeletion, ScramUpsertion
from minikafka.client.admin.configs import ALL_BROKERS, BROKER_LOGGER_RESOURCE, BROKER_RESOURCE, GROUP_RESOURCE
from minikafka.errors import ErrorCode, KafkaError
from minikafka.sasl.scram import BY_NAME
from minikafka.security.acls import AclFilter

SETTINGS: Final = {"delete.internal.topics.enable": "true"}
"""What the brokers must allow."""


async def delete_everything(layout: ClusterLayout) -> frozenset[UUID]:
    """Topics with groups, offsets and transactional ids; quotas; ACLs; users that were not there at first; settings of
    groups and brokers; levels of features and of brokers' logs.

    Returns the ids of the topics. There may be others of the same names at once: clients create what they miss.
    """
    first_logins = {(user, MECHANISM) for user in USERS} if layout.secure else set()
    async with Admin(layout.bootstrap_servers, security=layout.security) as admin:
        await _delete_acls(admin)  # which may hide the rest
        topics, quotas, groups, features, users = await asyncio.gather(
            admin.list_topics(internal=True),
            admin.describe_quotas(),
            admin.list_config_resources(GROUP_RESOURCE),
            admin.describe_features(),
            admin.describe_user_scram_credentials(),
        )
        configured = [(GROUP_RESOURCE, group) for group in groups]
        configured += [(BROKER_RESOURCE, broker) for broker in (ALL_BROKERS, *map(str, layout.node_ids))]
        lowered = {name: each.highest for name, each in features.items() if each.level < each.highest}
        changes = [admin.clear_resources(configured)]
        changes += (admin.alter_quotas(entity, dict.fromkeys(values)) for entity, values in quotas.items())
        for mechanism in BY_NAME:
            logins = {(user, mechanism) for user in users if mechanism in users[user]} - first_logins
            if logins:
                changes.append(admin.alter_user_scram_credentials(ScramDeletion(*login) for login in logins))
        if topics:
            changes.append(admin.delete_topics(topic.name for topic in topics))
        if lowered:
            changes.append(admin.update_features(lowered))
        level = {ROOT: _first_level(layout)}  # nobody but a broker knows its level, and it cannot be deleted
        changes += (admin.alter_resource(BROKER_LOGGER_RESOURCE, str(node_id), level) for node_id in layout.node_ids)
        await asyncio.gather(*changes)
        if layout.secure:
            await _let_in(USER, admin, layout)
    return frozenset(topic.topic_id for topic in topics)


async def _let_in(user: str, admin: Admin, layout: ClusterLayout) -> None:
    """By the password in its file, if a test has removed the user, or given it another one."""
    security = layout.security_of(user)
    try:
        async with Admin(layout.bootstrap_servers, security=security):
            return
    except KafkaError as error:
        if error.code is not ErrorCode.SASL_AUTHENTICATION_FAILED:
            raise
    assert security.sasl_password is not None, "it is in its file"
    await admin.alter_user_scram_credentials([ScramUpsertion(user, security.sasl_password, MECHANISM)])


async def _delete_acls(admin: Admin) -> None:
    try:
        await admin.delete_acls([AclFilter()])
    except KafkaError as error:
        if error.code is not ErrorCode.SECURITY_DISABLED:  # without an authorizer there are none
            raise


def _first_level(layout: ClusterLayout) -> str:
    logger = RootLogger()
    if (level := layout.settings.get("logging.level")) is not None:
        logger.configure(level)
    return logger.level
