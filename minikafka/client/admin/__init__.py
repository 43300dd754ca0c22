"""The admin client: one class, its calls by what they are about.

================  ==================================================================================================
``base``          connections, attempts, time-outs
``acls``          who may do what
``topics``        the cluster and its topics
``configs``       settings of topics and brokers
``features``      levels of protocols for the whole cluster
``groups``        consumer groups
``offsets``       first and last offsets, offsets by time, ends of leader epochs
``quotas``        bounds on what clients may ask
``quorum``        the controllers' quorum
``replicas``      where replicas are and who leads: reassignment, elections, log directories, brokers that are gone
``transactions``  transactions, as coordinators and partitions know them
``users``         who may log in with SCRAM
================  ==================================================================================================
"""

from __future__ import annotations

from minikafka.client.admin.acls import AclCalls
from minikafka.client.admin.configs import ConfigCalls, ConfigEntry
from minikafka.client.admin.features import Feature, FeatureCalls, FeatureChange
from minikafka.client.admin.groups import GroupCalls, GroupListing, GroupMember, GroupView
from minikafka.client.admin.offsets import OffsetCalls
from minikafka.client.admin.quorum import QuorumCalls, QuorumView
from minikafka.client.admin.quotas import QuotaCalls, QuotaEntity
from minikafka.client.admin.replicas import LogDirectory, Reassignment, ReplicaCalls, ReplicaSize
from minikafka.client.admin.topics import TopicCalls
from minikafka.client.admin.transactions import (
    OpenTransaction,
    ProducerView,
    TransactionCalls,
    TransactionListing,
    TransactionView,
)
from minikafka.client.admin.users import ScramDeletion, ScramUpsertion, UserCalls
from minikafka.security.acls import AclBinding, AclFilter, AclOperation, AclPermission, PatternType, ResourceType

__all__ = [
    "AclBinding",
    "AclFilter",
    "AclOperation",
    "AclPermission",
    "Admin",
    "ConfigEntry",
    "Feature",
    "FeatureChange",
    "GroupListing",
    "GroupMember",
    "GroupView",
    "LogDirectory",
    "OpenTransaction",
    "PatternType",
    "ProducerView",
    "QuorumView",
    "QuotaEntity",
    "Reassignment",
    "ReplicaSize",
    "ResourceType",
    "ScramDeletion",
    "ScramUpsertion",
    "TransactionListing",
    "TransactionView",
]


class Admin(
    TopicCalls,
    AclCalls,
    ConfigCalls,
    FeatureCalls,
    GroupCalls,
    OffsetCalls,
    QuorumCalls,
    QuotaCalls,
    ReplicaCalls,
    TransactionCalls,
    UserCalls,
):
    """``async with Admin("127.0.0.1:19092") as admin: await admin.create_topic("t", partitions=3)``.

    Every method raises KafkaError with the cluster's reason. What may pass (no leader yet, a broker that died) is tried
    again for ``request_timeout_ms``.
    """
