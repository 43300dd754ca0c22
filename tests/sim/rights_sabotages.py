"""Planted bugs about rights: what a node knows of ACLs and credentials, and by what it decides."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import Any
from uuid import UUID

from fault_sabotages import suite_of

from minikafka.broker.drivers import metadata
from minikafka.broker.drivers.raft import RaftDriver
from minikafka.broker.handlers import alter_user_scram_credentials, create_acls, delete_acls
from minikafka.broker.mechanisms import ScramUsers
from minikafka.metadata.image import MetadataImage
from minikafka.metadata.records import AccessControlEntryRecord, Record, UserScramCredentialRecord
from minikafka.metadata.snapshot import snapshot_records
from minikafka.sasl.scram import ScramCredential, ScramMechanism
from minikafka.security.acls import AclBinding
from minikafka.security.authorizer import StandardAuthorizer

RIGHTS = suite_of(
    "rights",
    "whole clusters whose nodes die, and rights that come and go",
    *("kill", "kill all", "kill controller", "orderly restart", "pause", "cut one way"),
    scenes=("rights",),
    duration_s=6.0,
)


@RIGHTS.replaces(StandardAuthorizer, "prepare")
def an_index_keeps_what_is_revoked(
    authorizer: StandardAuthorizer, acls: Mapping[UUID, AclBinding]
) -> Generator[None, None, None]:
    """ACLs come, and never go."""
    added = [acls[each] for each in acls.keys() - authorizer._acls.keys()]
    authorizer._next = acls, (yield from authorizer._index.updating(added, ()))


_sound_update = StandardAuthorizer.update


@RIGHTS.replaces(StandardAuthorizer, "update")
def decisions_are_remembered_for_ever(authorizer: StandardAuthorizer, acls: Mapping[UUID, AclBinding]) -> None:
    """What was decided by earlier ACLs still counts."""
    before = dict(authorizer._decisions)
    _sound_update(authorizer, acls)
    authorizer._decisions.update(before)


_sound_find = ScramUsers._find


@RIGHTS.replaces(ScramUsers, "_find")
def passwords_are_remembered(users: ScramUsers, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
    """A credential that was found once is not looked for again."""
    known: dict[str, ScramCredential] = vars(users).setdefault("known", {})
    found = known.get(user) or _sound_find(users, mechanism, user)
    if found is not None:
        known[user] = found
    return found


@RIGHTS.plants()
def a_snapshot_has_no_acls(patch: Any) -> None:
    """ACLs are left out of snapshots."""
    patch.setattr(metadata, "snapshot_records", lambda image: _without(image, AccessControlEntryRecord))


@RIGHTS.plants()
def a_snapshot_has_no_credentials(patch: Any) -> None:
    """SCRAM credentials are left out of snapshots."""
    patch.setattr(metadata, "snapshot_records", lambda image: _without(image, UserScramCredentialRecord))


def _without(image: MetadataImage, kind: type[Record]) -> Iterator[Record]:
    return (record for record in snapshot_records(image) if not isinstance(record, kind))


@RIGHTS.plants()
def a_change_is_answered_before_it_is_committed(patch: Any) -> None:
    """The controller answers what it has appended, and a node what the controller answered: with the controller, it is
    lost."""

    async def committed(_raft: RaftDriver, _end_offset: int) -> None:
        pass

    async def seen(*_args: Any) -> None:
        pass

    patch.setattr(RaftDriver, "committed", committed)
    for handler in (create_acls, delete_acls, alter_user_scram_credentials):
        patch.setattr(handler, "wait_until_seen", seen)
