"""Every API as a user with no rights, on a node with an authorizer: nothing is read, changed or revealed.

The oracle: what is told of a name that exists is what is told of one that does not, byte by byte, in every version of
every API; and the cluster's metadata and the files of all partitions are the same afterwards.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from uuid import UUID

import pytest
from filled_requests import filled
from hostile_requests import LARGEST
from live_cluster import eventually, running_cluster
from live_wire import ALL, ClosedError, Wire, batch, fetch_request, produce_request

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.config.node import CLIENT
from minikafka.config.security import STANDARD_AUTHORIZER
from minikafka.errors import ErrorCode
from minikafka.metadata.delta import replay_records
from minikafka.metadata.image import EMPTY_IMAGE, MetadataImage
from minikafka.metadata.records import decode_record
from minikafka.model import OffsetAndEpoch
from minikafka.records.batch import iter_batches
from minikafka.records.read import iter_records
from minikafka.security.acls import CLUSTER_NAME, EVERYONE, AclOperation, AclPermission, PatternType, ResourceType
from minikafka.wire.api import ApiKey
from minikafka.wire.codec import decode_exactly, encode
from minikafka.wire.error_codes import errors_of
from minikafka.wire.headers import decode_response_header
from minikafka.wire.messages.create_acls import AclCreation, CreateAclsRequest
from minikafka.wire.messages.find_coordinator import FindCoordinatorRequest
from minikafka.wire.messages.metadata import MetadataRequest
from minikafka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minikafka.wire.schema import Message, MessageType, VersionRange

SECRET: Final = "secret"  # a topic, a group and a transactional id
ABSENT: Final = "absent"  # none, and as long
HIDDEN: Final = "hidden"  # exists, and nobody asks for it
VALUE: Final = b"for your eyes only"
METADATA: Final = "__cluster_metadata-0"
UNKNOWN_ID: Final = UUID(int=77)
DENIED: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
KINDS: Final = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID, ResourceType.CLUSTER)
"""The cluster last: nobody could create ACLs afterwards."""
NODES_ONLY: Final = {ApiKey.ADD_PARTITIONS_TO_TXN: 4}
"""From that version on nodes ask."""
ASKED: Final = [
    (key, version)
    for key in ApiKey
    if CLIENT in key.listeners and key not in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
    for version in range(key.versions.first, key.versions.last + 1)
]


@pytest.fixture(scope="module")
def free_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Of a node on which everybody is allowed everything, by ACLs."""
    settings = {"authorizer_class_name": STANDARD_AUTHORIZER, "allow_everyone_if_no_acl_found": "true"}
    with running_cluster(tmp_path_factory.mktemp("free") / "cluster", 1, **settings) as cluster:
        port = cluster.layout.client_port(1)
        with Wire(port) as wire:
            wire.create_topic(SECRET, [[1]])
            rights = [_for_everybody(kind, AclPermission.ALLOW) for kind in KINDS]
            assert [result.error_code for result in wire.ask(CreateAclsRequest(creations=rights), 3).results] == [0] * 4
        yield port


@pytest.fixture(scope="module")
def barred(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalCluster, UUID]]:
    """A node with a secret topic, group and hidden topic, on which everybody is denied everything; the secret's id."""
    settings = {"authorizer_class_name": STANDARD_AUTHORIZER, "allow_everyone_if_no_acl_found": "true"}
    alone = {"offsets_topic_num_partitions": "1", "transaction_state_log_num_partitions": "1"}
    with running_cluster(tmp_path_factory.mktemp("barred") / "cluster", 1, **settings, **alone) as cluster:
        with Wire(cluster.layout.client_port(1)) as wire:
            for name in (SECRET, HIDDEN):
                wire.create_topic(name, [[1]])
                eventually(lambda name=name: wire.has_topic(name), name)  # type: ignore[misc]
                assert (
                    not wire.ask(produce_request(name, batch(VALUE), acks=ALL), 9)
                    .responses[0]
                    .partition_responses[0]
                    .error_code
                )
            for key_type in (0, 1):
                eventually(lambda key_type=key_type: _has_coordinator(wire, key_type), "a coordinator")  # type: ignore[misc]
            eventually(lambda: _commits(wire), "the offset")
            topics = wire.ask(MetadataRequest(topics=None), 12).topics
            secret_id = next(topic.topic_id for topic in topics if topic.name == SECRET)
            denials = [_for_everybody(kind, AclPermission.DENY) for kind in KINDS]
            results = wire.ask(CreateAclsRequest(creations=denials), 3).results
            assert [result.error_code for result in results] == [0, 0, 0, 0]
        yield cluster, secret_id


def _for_everybody(kind: ResourceType, permission: AclPermission) -> AclCreation:
    return AclCreation(
        resource_type=kind,
        resource_name=CLUSTER_NAME if kind == ResourceType.CLUSTER else "*",
        resource_pattern_type=PatternType.LITERAL,
        principal=EVERYONE,
        host="*",
        operation=AclOperation.ALL,
        permission_type=permission,
    )


def _has_coordinator(wire: Wire, key_type: int) -> bool:
    answer = wire.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[SECRET]), 4)
    return not answer.coordinators[0].error_code


def _commits(wire: Wire) -> bool:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topics = [OffsetCommitRequestTopic(name=SECRET, partitions=[partition])]
    answer = wire.ask(OffsetCommitRequest(group_id=SECRET, topics=topics), 8)
    return not answer.topics[0].partitions[0].error_code


def ask(port: int, key: ApiKey, version: int, request: Message) -> bytes:
    """What is answered, without its correlation id; that the connection is closed."""
    with Wire(port) as wire:
        try:
            wire.send_body(key, version, encode(request, version))
            return wire.receive_frame()[4:]
        except ClosedError:
            return b"closed"


def image_of(cluster: LocalCluster) -> MetadataImage:
    """The cluster's metadata, of their log, which may have grown by records that change nothing."""
    log = cluster.layout.data_directory(1) / METADATA / f"{0:020}.log"
    data = log.read_bytes()
    batches = [(header, position) for position, header in iter_batches(data) if not header.is_control]
    records = [
        decode_record(record.value or b"") for header, at in batches for record in iter_records(data, at, header)
    ]
    return replay_records(EMPTY_IMAGE, records, OffsetAndEpoch(0, 0))


def files_of(cluster: LocalCluster) -> dict[Path, str]:
    """All of the node's partitions. Beside their directories are checkpoints, which it writes now and then."""
    partitions = [each for each in cluster.layout.data_directory(1).glob("*-*/") if each.name != METADATA]
    files = sorted(file for partition in partitions for file in (partition, *partition.rglob("*")))
    assert any(file.suffix == ".log" for file in files)
    return {file: hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else "" for file in files}


@pytest.fixture
def port(barred: tuple[LocalCluster, UUID]) -> Iterator[int]:
    """Of the node; afterwards its metadata and files are what they were."""
    cluster, _ = barred
    image, files = image_of(cluster), files_of(cluster)
    yield cluster.layout.client_port(1)
    assert image_of(cluster) == image, "something was changed"
    assert files_of(cluster) == files, "something was written"


def test_what_exists_looks_as_what_does_not(port: int) -> None:
    for key, version in ASKED:
        told = {
            name: ask(port, key, version, filled(key.request_class, version, name, UNKNOWN_ID)).replace(
                name.encode(), b"......"
            )
            for name in (SECRET, ABSENT)
        }
        assert told[SECRET] == told[ABSENT], f"{key.camel_name} version {version} tells whether a name exists"
        assert VALUE not in told[SECRET]
        assert HIDDEN.encode() not in told[SECRET]


def test_a_denial_leaves_the_words_to_the_client(port: int) -> None:
    """Java's shows an empty message as it is; without one it says what is not authorized."""
    for key, version in dict(ASKED).items():
        told = ask(port, key, version, filled(key.request_class, version, SECRET, UNKNOWN_ID))
        if told != b"closed":
            _, position = decode_response_header(b"\0\0\0\0" + told, key, version)
            answer = decode_exactly(key.response_class, version, b"\0\0\0\0" + told, position)
            assert not _says_nothing(answer), f"{key.camel_name} version {version}: {answer}"


def _says_nothing(answer: Message) -> bool:
    """Of a denial, in it or in one of its elements."""
    if getattr(answer, "error_code", 0) in DENIED and getattr(answer, "error_message", None) == "":
        return True
    arrays = (value for name in type(answer).SCHEMA if isinstance(value := getattr(answer, name), list))
    return any(_says_nothing(each) for array in arrays for each in array if isinstance(each, Message))


def test_who_asks_for_everything_is_told_nothing(port: int) -> None:
    for key, version in ASKED:
        told = ask(port, key, version, filled(key.request_class, version, "", UNKNOWN_ID, all_of_them=True))
        for word in (SECRET.encode(), HIDDEN.encode(), VALUE, b"__consumer_offsets"):
            assert word not in told, f"{key.camel_name} version {version} tells of {word.decode()}"


def test_the_id_of_a_topic_is_of_no_use(barred: tuple[LocalCluster, UUID], port: int) -> None:
    _, secret_id = barred
    by_id = [(key, version) for key, version in ASKED if _names_by_id(key.request_class, version)]
    assert {key.camel_name for key, _ in by_id} >= {"Produce", "Fetch", "Metadata", "DeleteTopics", "OffsetCommit"}
    for key, version in by_id:
        request = filled(key.request_class, version, "", secret_id)
        for element in getattr(request, "topics", None) or ():
            if "name" in type(element).SCHEMA and type(element).SCHEMA["name"].nullable:
                element.name = None
        told = ask(port, key, version, request)
        assert told != b"closed"
        _, position = decode_response_header(b"\0\0\0\0" + told, key, version)
        answer = decode_exactly(key.response_class, version, b"\0\0\0\0" + told, position)
        assert set(errors_of(answer)) <= DENIED, f"{key.camel_name} version {version}: {answer}"
        assert errors_of(answer) or key is ApiKey.CONSUMER_GROUP_HEARTBEAT
        assert SECRET.encode() not in told
        assert VALUE not in told


def _names_by_id(cls: MessageType, version: int) -> bool:
    topics = [cls.SCHEMA[name].type for name in ("topics", "topic_data") if name in cls.SCHEMA]
    return any(
        isinstance(of, MessageType)
        and "topic_id" in of.SCHEMA
        and VersionRange.parse(of.SCHEMA["topic_id"].versions).has(version)
        for of in topics
    )


def test_who_has_all_rights_is_refused_nothing_for_want_of_them(free_port: int) -> None:
    for key, version in ASKED:
        if key in NODES_ONLY and version >= NODES_ONLY[key]:
            continue
        told = ask(free_port, key, version, filled(key.request_class, version, SECRET, UNKNOWN_ID))
        if told == b"closed":
            continue
        _, position = decode_response_header(b"\0\0\0\0" + told, key, version)
        answer = decode_exactly(key.response_class, version, b"\0\0\0\0" + told, position)
        assert not set(errors_of(answer)) & DENIED, f"{key.camel_name} version {version}: {answer}"


def test_nobody_poses_as_a_follower(port: int) -> None:
    with Wire(port) as wire:
        answer = wire.ask(fetch_request(SECRET, 0, replica_id=1), 11)
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize("name", LARGEST)
def test_large_requests_are_refused_in_good_time(port: int, name: str) -> None:
    """Long turns of the loop fail the fixture's cluster at its end."""
    make, version = LARGEST[name]
    with Wire(port) as wire:
        answer = wire.ask(make(), version)
        assert set(errors_of(answer)) <= DENIED | {ErrorCode.INVALID_REQUEST}


def test_denials_are_in_the_log(barred: tuple[LocalCluster, UUID], port: int) -> None:
    cluster, _ = barred
    said = cluster.layout.log_file(1).read_text()
    assert "access denied" in said
    assert "User:ANONYMOUS" in said
