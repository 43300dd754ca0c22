"""The mark of a clean stop, ``.kafka_cleanshutdown``: written last. Without it a start recovers the logs."""

from __future__ import annotations

import json
from typing import Final

from minikafka.model import NO_EPOCH
from minikafka.storage.aside import replace_file
from minikafka.storage.disk import Disk
from minikafka.storage.small_file import read_small_file

CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"


def read_clean_shutdown(disk: Disk, directory: str) -> int | None:
    """The broker epoch in the mark; None when there is no mark.

    -1 for a mark without an epoch (as older Kafka writes it), and for an unreadable one: its presence is enough.
    """
    try:
        return int(json.loads(read_small_file(disk, f"{directory}/{CLEAN_SHUTDOWN_FILE}"))["brokerEpoch"])
    except FileNotFoundError:
        return None
    except RecursionError:
        return None  # nobody's mark
    except (ValueError, KeyError, TypeError, OverflowError):
        return NO_EPOCH


def write_clean_shutdown(disk: Disk, directory: str, broker_epoch: int) -> None:
    """Write the mark: everything in the directory is durable."""
    mark = json.dumps({"version": 0, "brokerEpoch": broker_epoch})
    replace_file(disk, f"{directory}/{CLEAN_SHUTDOWN_FILE}", mark.encode())


def remove_clean_shutdown(disk: Disk, directory: str) -> None:
    """Remove the mark, durably, before the first change."""
    disk.unlink(f"{directory}/{CLEAN_SHUTDOWN_FILE}")
    disk.fsync_dir(directory)
