"""The ``registration`` file of a log directory: under which registration what is in it was written (KIP-966).

It also tells a start whether what the former process wrote can only have been lost by damage: a process that is killed
leaves its writes in the page cache, and they are there as long as the machine runs on (the same boot id).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import quote, unquote
from uuid import UUID

from minikafka.event_log import get_logger
from minikafka.storage.disk import Disk
from minikafka.storage.meta import format_uuid, parse_uuid
from minikafka.storage.small_file import read_small_file

log = get_logger()

REGISTRATION_FILE: Final = "registration"
REGISTRATION_VERSION: Final = 0

_EPOCH_MAX: Final = 2**63 - 1  # int64


class Registration(NamedTuple):
    """Who wrote last, and in which directories that have not failed; ``boot_id`` is None where it is not told.

    Of the topics ``synced`` the logs hold nothing that counts before it is synced: a power cut takes nothing of them.
    ``paths`` are those of all log directories that the node had, absolute, also of directories that were offline.
    """

    broker_epoch: int
    boot_id: str | None
    directories: tuple[UUID, ...]
    synced: tuple[UUID, ...] = ()
    paths: Mapping[str, UUID] = {}

    def is_of_boot(self, boot_id: str | None) -> bool:
        """Has the machine run on since? False when that is not known."""
        return self.boot_id is not None and self.boot_id == boot_id


def read_registration(disk: Disk, directory: str) -> Registration | None:
    """What is recorded in ``directory``; None when nothing is, or nothing that can be read and understood."""
    path = f"{directory}/{REGISTRATION_FILE}"
    try:
        return parse_registration(read_small_file(disk, path))
    except FileNotFoundError:
        return None
    except (KeyError, ValueError) as error:
        log.warning(
            "registration unreadable", path=path, why=str(error), effect="no replica in this directory is claimed"
        )
        return None


def parse_registration(data: bytes) -> Registration | None:
    """The content of the file; None for one of another version. KeyError or ValueError when it is damaged."""
    rows = dict(line.split("=", 1) for line in data.decode().splitlines() if not line.startswith("#"))
    if int(rows["version"]) != REGISTRATION_VERSION:
        return None
    directories, synced = _uuids(rows["directories"]), _uuids(rows.get("synced.topics", ""))
    paths = _paths(rows.get("directory.paths", ""))
    broker_epoch = int(rows["broker.epoch"])
    if not 0 <= broker_epoch <= _EPOCH_MAX:
        return None
    return Registration(broker_epoch, rows["boot.id"] or None, directories, synced, paths)


def _uuids(text: str) -> tuple[UUID, ...]:
    return tuple(parse_uuid(one) for one in text.split(",") if one)


def _paths(text: str) -> dict[str, UUID]:
    pairs = [one.split(":", 1) for one in text.split(",") if one]
    return {unquote(path): parse_uuid(directory_id) for directory_id, path in pairs}


def format_registration(registration: Registration) -> bytes:
    """The content of the file."""
    text = (
        "#\n"
        f"boot.id={registration.boot_id or ''}\n"
        f"broker.epoch={registration.broker_epoch}\n"
        f"directories={','.join(map(format_uuid, registration.directories))}\n"
        f"directory.paths={','.join(f'{format_uuid(one)}:{quote(path)}' for path, one in registration.paths.items())}\n"
        f"synced.topics={','.join(map(format_uuid, registration.synced))}\n"
        f"version={REGISTRATION_VERSION}\n"
    )
    return text.encode()
