"""What the small files of a log directory say of its logs, and whether a node runs on it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from minikafka.model import TopicPartition
from minikafka.storage.checkpoints import (
    CLEANER_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    parse_offsets,
)
from minikafka.storage.clean_shutdown import read_clean_shutdown
from minikafka.storage.disk import Disk
from minikafka.storage.examination.findings import Findings
from minikafka.storage.log_ends import LOG_ENDS_FILE, LogKey, Noted, parse_log_ends
from minikafka.storage.registration_file import REGISTRATION_FILE, Registration, parse_registration
from minikafka.storage.small_file import read_small_file

T = TypeVar("T")

LOCK_FILE: Final = ".lock"
LOCKS_OF_ALL: Final = "/proc/locks"

_EFFECTS: Final = {
    RECOVERY_POINT_FILE: "more of the logs is verified",
    HIGH_WATERMARK_FILE: "the logs' ends are not checked against it",
    LOG_START_FILE: "logs start at their first segment",
    CLEANER_FILE: "logs are cleaned from their start",
}


@dataclass(frozen=True, slots=True)
class DirectoryFacts:
    """See the module. Offsets by partition, empty where a file is absent or unreadable."""

    is_running: bool = False
    was_clean: bool = False
    is_same_boot: bool = False
    """The machine ran on since the node did: its page cache has all that was written."""
    recovery_points: Mapping[TopicPartition, int] = field(default_factory=dict)
    high_watermarks: Mapping[TopicPartition, int] = field(default_factory=dict)
    log_starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    first_dirty: Mapping[TopicPartition, int] = field(default_factory=dict)
    noted_ends: Mapping[LogKey, Noted] = field(default_factory=dict)

    @property
    def keeps_writes(self) -> bool:
        """What was written last can only be missing by damage."""
        return not self.is_running and (self.was_clean or self.is_same_boot)


def read_facts(disk: Disk, directory: str, boot_id: str | None, findings: Findings) -> DirectoryFacts:
    """Read the files; what is wrong with them is found. OSError when the directory cannot be read."""
    running = is_running(directory)  # first: whoever starts later may change what is read now
    registration = _registration(disk, f"{directory}/{REGISTRATION_FILE}", findings)

    def offsets(name: str) -> dict[TopicPartition, int]:
        path, effect = f"{directory}/{name}", _EFFECTS[name]
        return _read(disk, path, parse_offsets, f"it counts as absent: {effect}", findings) or {}

    ends = _read(
        disk,
        f"{directory}/{LOG_ENDS_FILE}",
        lambda data: parse_log_ends(data, boot_id),
        "it counts as absent",
        findings,
    )
    return DirectoryFacts(
        running,
        read_clean_shutdown(disk, directory) is not None,
        registration is not None and registration.is_of_boot(boot_id),
        offsets(RECOVERY_POINT_FILE),
        offsets(HIGH_WATERMARK_FILE),
        offsets(LOG_START_FILE),
        offsets(CLEANER_FILE),
        ends or {},
    )


def is_running(directory: str, locks: str = LOCKS_OF_ALL) -> bool:
    """A process holds the lock of the directory. It is looked up, not tried: that could stop the start of a node."""
    try:
        stat = os.stat(f"{directory}/{LOCK_FILE}")
        with open(locks) as file:
            held = [line.split() for line in file]
    except OSError:
        return False
    return any(str(stat.st_ino) == word.rpartition(":")[2] for words in held for word in words if word.count(":") == 2)


def _registration(disk: Disk, path: str, findings: Findings) -> Registration | None:
    def parse(data: bytes) -> Registration | None:
        try:
            return parse_registration(data)
        except KeyError as error:
            raise ValueError(f"{error} is missing") from None

    return _read(disk, path, parse, "no replica of the node is claimed as whole", findings)


def _read(disk: Disk, path: str, parse: Callable[[bytes], T], effect: str, findings: Findings) -> T | None:
    try:
        data = read_small_file(disk, path)
        return parse(data) if data else None  # Kafka makes its checkpoint files empty
    except FileNotFoundError:
        return None
    except ValueError as error:
        findings.mended(path, f"unreadable ({error}); {effect}")
        return None
