"""The two identity files: ``meta.properties`` of a log directory and ``partition.metadata`` of a partition.

UUIDs are spelled as Kafka prints them: URL-safe base64 of the 16 bytes, 22 characters.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from typing import NamedTuple
from uuid import UUID

from minikafka.model import ZERO_TOPIC_ID
from minikafka.storage.disk import Disk
from minikafka.storage.small_file import read_small_file

META_FILE = "meta.properties"
PARTITION_METADATA_FILE = "partition.metadata"
META_VERSION = 1
PARTITION_METADATA_VERSION = 0


class MetaError(Exception):
    """The directory belongs to another node or cluster, or its ``meta.properties`` is unreadable."""


class DamagedMetaError(MetaError):
    """``meta.properties`` is missing or damaged: the owner of the directory is unknown."""


class VanishedDirectoryError(DamagedMetaError):
    """The log directory that was at ``path`` is at no path of this node now."""

    def __init__(self, path: str, directory_id: UUID) -> None:
        super().__init__(
            f"{path} is empty and held log directory {format_uuid(directory_id)} before: is its file system mounted?"
            f" Mount it and restart this node. If the disk was replaced, create an empty file {path}/{REPLACED_FILE}"
            " and restart this node: the replicas are fetched again from other nodes then"
        )


REPLACED_FILE = "replaced"
META_REMEDY = (
    f"put the file back, or move the directory's content away and create an empty file {REPLACED_FILE} in it:"
    " replicas in it are fetched again from other nodes then"
)


class DirectoryMeta(NamedTuple):
    """Owner and id of a log directory."""

    cluster_id: str
    node_id: int
    directory_id: UUID


def format_uuid(uuid: UUID) -> str:
    """A UUID as Kafka prints it."""
    return urlsafe_b64encode(uuid.bytes).decode().rstrip("=")


def parse_uuid(text: str) -> UUID:
    """A UUID that Kafka printed; ValueError for anything else."""
    try:
        return UUID(bytes=urlsafe_b64decode(text + "=="))
    except Base64Error as error:
        raise ValueError(f"{text!r} is not a base64 UUID") from error


def read_meta(disk: Disk, directory: str) -> DirectoryMeta | None:
    """``meta.properties`` of ``directory``, None when it has none; DamagedMetaError when it makes no sense."""
    path = f"{directory}/{META_FILE}"
    try:
        rows = _parse_rows(read_small_file(disk, path), "=")
        if int(rows["version"]) != META_VERSION:
            raise MetaError(f"{path} has version {rows['version']}; version {META_VERSION} is understood")
        return DirectoryMeta(rows["cluster.id"], int(rows["node.id"]), parse_uuid(rows["directory.id"]))
    except FileNotFoundError:
        return None
    except KeyError as error:
        raise DamagedMetaError(f"{path} is incomplete: {error} is missing; {META_REMEDY}") from error
    except ValueError as error:
        raise DamagedMetaError(f"{path} is damaged: {error}; {META_REMEDY}") from error


def write_meta(disk: Disk, directory: str, meta: DirectoryMeta) -> None:
    """Write ``meta.properties`` durably."""
    text = (
        "#\n"
        f"cluster.id={meta.cluster_id}\n"
        f"directory.id={format_uuid(meta.directory_id)}\n"
        f"node.id={meta.node_id}\n"
        f"version={META_VERSION}\n"
    )
    disk.write_atomic(f"{directory}/{META_FILE}", text.encode())


def read_topic_id(disk: Disk, directory: str) -> UUID:
    """The topic id in a partition directory; the zero UUID when it is not recorded, or cannot be read."""
    try:
        rows = _parse_rows(read_small_file(disk, f"{directory}/{PARTITION_METADATA_FILE}"), ":")
        return parse_uuid(rows["topic_id"])
    except (FileNotFoundError, KeyError, ValueError):
        return ZERO_TOPIC_ID


def write_topic_id(disk: Disk, directory: str, topic_id: UUID) -> None:
    """Record the topic id of a partition directory; durable with the log's first flush."""
    text = f"version: {PARTITION_METADATA_VERSION}\ntopic_id: {format_uuid(topic_id)}"
    disk.write_bytes(f"{directory}/{PARTITION_METADATA_FILE}", text.encode())


def _parse_rows(data: bytes, separator: str) -> dict[str, str]:
    rows = {}
    for line in data.decode().splitlines():
        if separator in line and not line.startswith("#"):
            key, _, value = line.partition(separator)
            rows[key.strip()] = value.strip()
    return rows
