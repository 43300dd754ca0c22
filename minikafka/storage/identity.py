"""Owner of a log directory: this node, another one, or none yet (then it may be an empty mount point)."""

from __future__ import annotations

import errno
from os.path import dirname
from uuid import UUID

from minikafka.storage.disk import Disk
from minikafka.storage.meta import (
    META_FILE,
    META_REMEDY,
    REPLACED_FILE,
    DamagedMetaError,
    DirectoryMeta,
    MetaError,
    VanishedDirectoryError,
    read_meta,
    write_meta,
)
from minikafka.storage.registration_file import REGISTRATION_FILE

_NOT_OURS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EINVAL, errno.ENOTSUP)  # in there this process made nothing


def identify(disk: Disk, path: str, cluster_id: str, node_id: int) -> DirectoryMeta | None:
    """Owner of the directory; None without one. MetaError: another node's or cluster's, or unknown."""
    meta = read_meta(disk, path)
    if meta is None:
        if disk.exists(f"{path}/{REGISTRATION_FILE}"):  # its logs may be another node's
            raise DamagedMetaError(f"{path}/{META_FILE} is missing, but the directory was in use; {META_REMEDY}")
        return None
    if meta.node_id != node_id:
        raise MetaError(f"the log directory {path} belongs to node {meta.node_id}, not to node {node_id}")
    if meta.cluster_id != cluster_id:
        raise MetaError(f"the log directory {path} belongs to cluster {meta.cluster_id}, not to {cluster_id}")
    return meta


def mark_as_ours(disk: Disk, path: str, meta: DirectoryMeta, vanished_id: UUID | None) -> None:
    """Mark a directory without an owner, durably. ``vanished_id``: id of a former log directory at this path.

    VanishedDirectoryError for an empty mount point: files in it would be hidden once the file system is mounted again.
    After a replacement of the disk the operator creates an empty file ``replaced`` in it.
    """
    if vanished_id is not None and not disk.exists(f"{path}/{REPLACED_FILE}"):
        raise VanishedDirectoryError(path, vanished_id)
    _sync_names(disk, path)
    write_meta(disk, path, meta)


def forget_replacement(disk: Disk, path: str) -> None:
    """Remove the file ``replaced``: the new disk is marked as this node's."""
    disk.unlink(f"{path}/{REPLACED_FILE}")


def _sync_names(disk: Disk, path: str) -> None:
    """Make the new directory's own name durable, and those above it, which may be as new."""
    above = dirname(path)
    while above != path:
        try:
            disk.fsync_dir(above)
        except OSError as error:
            if error.errno not in _NOT_OURS:
                raise
        path, above = above, dirname(above)
