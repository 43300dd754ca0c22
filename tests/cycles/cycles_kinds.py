"""The kinds of operations: each leaves nothing behind that outlives what time-outs keep.

One is called with ever new numbers, of which it makes names that nobody has used before.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from socket import SO_LINGER, SOL_SOCKET
from typing import Any, Final
from uuid import UUID

from cycles_ground import Ground
from cycles_groups import (
    STEADY,
    abandoned_joins,
    classic_groups,
    commit,
    consumer_groups,
    conversions,
    members,
    offsets,
    producers,
    transactions,
)
from live_wire import ALL, batch, fetch_request, produce_request

from minikafka.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from minikafka.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from minikafka.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from minikafka.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from minikafka.wire.messages.api_versions import ApiVersionsRequest
from minikafka.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from minikafka.wire.messages.create_acls import AclCreation, CreateAclsRequest
from minikafka.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from minikafka.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from minikafka.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from minikafka.wire.messages.delete_topics import DeleteTopicsRequest
from minikafka.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from minikafka.wire.messages.describe_groups import DescribeGroupsRequest
from minikafka.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from minikafka.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from minikafka.wire.messages.describe_transactions import DescribeTransactionsRequest
from minikafka.wire.messages.end_txn import EndTxnRequest
from minikafka.wire.messages.fetch import FetchRequest, ForgottenTopic
from minikafka.wire.messages.heartbeat import HeartbeatRequest
from minikafka.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from minikafka.wire.messages.init_producer_id import InitProducerIdRequest
from minikafka.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from minikafka.wire.messages.list_transactions import ListTransactionsRequest
from minikafka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from minikafka.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

COMPACTED: Final = "compacted"
SHORT: Final = "short"
"""Keeps no record for long."""
MOVING: Final = "moving"

Kind = Callable[[Ground, int], None]


def prepare(ground: Ground) -> None:
    """What is always there."""
    ground.create(STEADY, [[1, 2, 3]])
    ground.create(COMPACTED, [[2, 1]], cleanup_policy="compact", segment_bytes="1024")
    ground.create(SHORT, [[3, 1]], retention_ms="1", segment_bytes="1024")
    ground.create(MOVING, [[1]], segment_bytes="1024", retention_ms="1")
    for group in (STEADY, "members", "consumers"):
        commit(ground, group, -1, retention_ms=3_600_000)
    _quota(ground, [("client-id", None)], remove=False)


# -- topics ---------------------------------------------------------------------------------------------------------


def topics(ground: Ground, number: int) -> None:
    """Created, used, given partitions, deleted."""
    name = f"topic-{number}"
    ground.create(name, [[1 + number % 3, 1 + (number + 1) % 3]], flush_messages=str(1 + number % 2))
    ground.produce(name, b"a")
    leader = ground.leader(name)
    for version in (4, 9):
        ground.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), version, leader)
    ground.to(leader).fetch(name, 0)
    commit(ground, STEADY, -1, topic=name, version=7)  # without a time of its own
    more = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=2, assignments=None)], timeout_ms=9_000
    )
    answer = ground.ask(more, 2)
    assert not answer.results[0].error_code, answer
    assert not ground.ask(DeleteTopicsRequest(topic_names=[name], timeout_ms=9_000), 5).responses[0].error_code


def settings(ground: Ground, number: int) -> None:
    """Of topics, groups and brokers."""
    _configure(ground, 2, STEADY, "max.message.bytes", str(100_000 + number))
    _configure(ground, 32, f"group-{number}", "consumer.session.timeout.ms", "600")
    _configure(ground, 4, "", "log.message.timestamp.after.max.ms", str(3_600_000 + number))


def _configure(ground: Ground, kind: int, name: str, key: str, value: str) -> None:
    for operation in (0, 1):
        row = AlterableConfig(name=key, config_operation=operation, value=None if operation else value)
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[row])
        answer = ground.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert not answer.responses[0].error_code, answer


# -- rights and quotas ----------------------------------------------------------------------------------------------


def rights(ground: Ground, number: int) -> None:
    """ACLs, users and quotas, set and removed."""
    user = f"user-{number}"
    for pattern, principal, host in ((3, user, "*"), (4, user, f"10.0.0.{number}"), (3, STEADY, "*"), (4, STEADY, "*")):
        acl = AclCreation(
            resource_type=2,
            resource_name=f"topic-{number}",
            resource_pattern_type=pattern,
            principal=f"User:{principal}",
            host=host,
            operation=3,
            permission_type=3,
        )
        assert not ground.ask(CreateAclsRequest(creations=[acl]), 2).results[0].error_code
    doomed = DeleteAclsFilter(
        resource_type_filter=2,
        resource_name_filter=f"topic-{number}",
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    assert not ground.ask(DeleteAclsRequest(filters=[doomed]), 2).filter_results[0].error_code
    secret = ScramCredentialUpsertion(
        name=user, mechanism=1, iterations=4096, salt=b"salt" * 4, salted_password=b"x" * 32
    )
    for request in (
        AlterUserScramCredentialsRequest(upsertions=[secret]),
        AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(name=user, mechanism=1)]),
    ):
        assert not ground.ask(request, 0).results[0].error_code
    for remove in (False, True):
        _quota(ground, [("user", user)], remove=remove)
        _quota(ground, [("user", user), ("client-id", f"client-{number}")], remove=remove)


def _quota(ground: Ground, entity: list[tuple[str, str | None]], *, remove: bool) -> None:
    keys = ("producer_byte_rate", "request_percentage", "consumer_byte_rate", "controller_mutation_rate")
    entry = EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[OpData(key=key, value=1e9, remove=remove) for key in keys],
    )
    assert not ground.ask(AlterClientQuotasRequest(entries=[entry]), 1).entries[0].error_code


# -- connections ----------------------------------------------------------------------------------------------------


def connections(ground: Ground, number: int) -> None:
    """Clients of new names and programs; some are cut off while they wait, or in the middle of a request."""
    node = 1 + number % 3
    with ground.wire(node, f"client-{number}") as wire:
        wire.ask(ApiVersionsRequest(client_software_name=f"program-{number}", client_software_version="1"), 3)
        wire.ask(MetadataRequest(topics=[]), 9)
    leader = ground.leader(STEADY)
    with ground.wire(leader, f"waiting-{number}") as wire:
        end = ground.produce(STEADY, b"x" * 10) + 1
        wire.ask(produce_request(STEADY, bytes(batch(b"p"))), 9)
        wire.send(fetch_request(STEADY, end + 1_000_000, wait_ms=60_000), 11)
        wire.send(fetch_request(STEADY, end + 1, wait_ms=60_000), 11)
        if number % 2:
            wire.socket.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    with ground.wire(node, f"half-{number}") as wire:
        wire.send_bytes(b"\0\0\x10\0" + b"x" * 100)
    with ground.wire(node, f"wrong-{number}") as wire:
        wire.send_frame(struct.pack(">hhih", 1_000 + number % 1_000, 0, 1, -1))
        assert wire.is_closed_by_node()


def sessions(ground: Ground, number: int) -> None:
    """Of fetches, by new clients: closed, or forgotten by who opened them."""
    with ground.wire(ground.leader(STEADY), f"session-{number}") as wire:
        opened = wire.ask(fetch_request(STEADY, 0, session_epoch=0), 11)
        if opened.session_id:
            unknown = fetch_request(f"nothing-{number}", 0, session_id=opened.session_id, session_epoch=1)
            wire.ask(unknown, 11)
            forgotten = [ForgottenTopic(topic=f"nothing-{number}", partitions=[0])]
            forget = FetchRequest(
                session_id=opened.session_id,
                session_epoch=2,
                max_wait_ms=0,
                min_bytes=0,
                forgotten_topics_data=forgotten,
            )
            wire.ask(forget, 11)
        if number % 2 and opened.session_id:
            wire.ask(FetchRequest(session_id=opened.session_id, session_epoch=-1, max_wait_ms=0, min_bytes=0), 11)


def failed_questions(ground: Ground, number: int) -> None:
    """About what is not there."""
    name, node = f"nothing-{number}", 1 + number % 3
    ask = ground.ask
    ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True), 9, node)
    ask(MetadataRequest(topics=[MetadataRequestTopic(topic_id=UUID(int=number + 1), name=None)]), 12, node)
    ask(produce_request(name, bytes(batch(b"x")), acks=ALL), 9, node)
    ask(fetch_request(name, 0), 11, node)
    asked = ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(partition_index=number, timestamp=-1)])
    ask(ListOffsetsRequest(replica_id=-1, topics=[asked]), 5, node)
    epochs = OffsetForLeaderTopic(topic=name, partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=0)])
    ask(OffsetForLeaderEpochRequest(topics=[epochs]), 3, node)
    ask(DescribeGroupsRequest(groups=[name]), 5, node)
    ask(ConsumerGroupDescribeRequest(group_ids=[name]), 0, node)
    ask(DescribeTransactionsRequest(transactional_ids=[name]), 0, node)
    ask(DescribeProducersRequest(topics=[TopicRequest(name=name, partition_indexes=[0])]), 0, node)
    ask(ListTransactionsRequest(producer_id_filters=[number + 10**9], transactional_id_pattern=f"{name}.*"), 2, node)
    ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=name, topics=None)]), 8, node)
    for kind in (2, 4, 32):
        resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        ask(DescribeConfigsRequest(resources=[resource]), 4, node)
    heartbeat = HeartbeatRequest(group_id=name, generation_id=1, member_id=name)
    assert ask(heartbeat, 3, node).error_code
    bad = EndTxnRequest(transactional_id=name, producer_id=number, producer_epoch=0, committed=True)
    assert ask(bad, 3, node).error_code
    ask(DeleteTopicsRequest(topic_names=[name], timeout_ms=1_000), 5, node)


# -- logs -----------------------------------------------------------------------------------------------------------


def logs(ground: Ground, number: int) -> None:
    """Records that go: deleted by request, by their age, by newer ones of their key."""
    end = ground.produce(STEADY, b"d" * 200)
    at = DeleteRecordsPartition(partition_index=0, offset=end)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=STEADY, partitions=[at])], timeout_ms=9_000)
    ground.ask(request, 1, ground.leader(STEADY))
    ground.produce(SHORT, b"s" * 700)
    answer = ground.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000), 4)
    identity = {"producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}
    for sequence in range(4):
        ground.produce(COMPACTED, b"c" * 500, base_sequence=sequence, **identity)


def moves(ground: Ground, number: int) -> None:
    """A replica goes to another directory of its node, and back."""
    found = ground.ask(DescribeLogDirsRequest(topics=None), 1).results
    where = {each.log_dir: {topic.name for topic in each.topics} for each in found}
    path = next(path for path, names in where.items() if STEADY not in names)
    row = AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=STEADY, partitions=[0])])
    answer = ground.ask(AlterReplicaLogDirsRequest(dirs=[row]), 1)
    assert not answer.results[0].partitions[0].error_code, answer

    def is_there() -> bool:
        found = ground.ask(DescribeLogDirsRequest(topics=None), 1).results
        (there,) = [each for each in found if each.log_dir == path]
        return any(topic.name == STEADY and not topic.partitions[0].is_future_key for topic in there.topics)

    _wait_for(is_there)


def restarts(ground: Ground, number: int) -> None:
    """A node is killed, others lead, and it comes back."""
    node = ground.nodes[number % len(ground.nodes)]
    ground.hang_up()
    ground.kafka.kill(node)
    _wait_for(lambda: ground.kafka.leader_of(STEADY) not in (node, -1))
    ground.until(
        lambda: (
            ground.ask(produce_request(STEADY, bytes(batch(b"k"))), 9, ground.kafka.leader_of(STEADY))
            .responses[0]
            .partition_responses[0]
        ),
        lambda each: each.error_code,
    )
    ground.hang_up()
    ground.kafka.restart(node)
    ground.kafka.wait_until_healthy()


def reassignments(ground: Ground, number: int) -> None:
    """A partition goes round."""
    ground.produce(MOVING, b"m" * 100)
    target = ground.nodes[(number + 1) % len(ground.nodes)]
    row = ReassignablePartition(partition_index=0, replicas=[target])
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=MOVING, partitions=[row])])
    assert not ground.ask(request, 0).error_code
    _wait_for(lambda: ground.leader(MOVING) == target)


def _wait_for(holds: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


KINDS: Final[dict[str, Kind]] = {
    each.__name__: each
    for each in (
        topics,
        settings,
        classic_groups,
        members,
        consumer_groups,
        conversions,
        abandoned_joins,
        offsets,
        producers,
        transactions,
        rights,
        connections,
        sessions,
        failed_questions,
        logs,
        reassignments,
        moves,
    )
}
