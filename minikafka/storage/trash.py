"""What is deleted is renamed at once; its files go later, in a thread."""

from __future__ import annotations

from collections.abc import Sequence

from minikafka.storage.disk import Disk


def remove_trash(disk: Disk, paths: Sequence[str]) -> None:
    """Remove files and directories that nobody uses any more; may run in a thread."""
    for path in paths:
        if disk.is_dir(path):
            disk.remove_tree(path)
        else:
            disk.unlink(path)
