"""JoinGroup requests, as groups of either protocol serve them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from minikafka.coordination.effects import Token
from minikafka.groups.group import Member, Protocols
from minikafka.wire.messages.join_group import JoinGroupRequest

MEMBER_ID_REQUIRED_FROM_VERSION: Final = 4
NAME_LENGTH_MAX: Final = 255
"""Characters of a client id in a member id. All members are told of it, and a string has 32,767 bytes at most."""


class Caller(NamedTuple):
    """The sender of a request: client id, host, and version of the request; and the user, for ACLs."""

    client_id: str
    client_host: str
    version: int
    user: str = ""


@dataclass(frozen=True, slots=True)
class Join:
    """A JoinGroup request with its sender and the token of its response."""

    request: JoinGroupRequest
    caller: Caller
    token: Token

    @property
    def protocols(self) -> Protocols:
        """The assignors offered, with the metadata for each."""
        return tuple((protocol.name, protocol.metadata) for protocol in self.request.protocols)

    @property
    def rebalance_timeout_ms(self) -> int:
        """Version 0 has only the session timeout."""
        timeout_ms = self.request.rebalance_timeout_ms
        return timeout_ms if timeout_ms >= 0 else self.request.session_timeout_ms

    def new_member(self, member_id: str) -> Member:
        """A new member, made from this join."""
        return Member(
            member_id=member_id,
            group_instance_id=self.request.group_instance_id,
            client_id=self.caller.client_id,
            client_host=self.caller.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.request.session_timeout_ms,
            protocols=self.protocols,
            is_new=True,
        )

    def new_member_id(self, suffix: str) -> str:
        """An id for a member that has none."""
        return f"{(self.request.group_instance_id or self.caller.client_id)[:NAME_LENGTH_MAX]}-{suffix}"

    @property
    def needs_member_id(self) -> bool:
        """True for a new dynamic member: it is given an id, and joins again with that (KIP-394)."""
        request = self.request
        is_new = not request.member_id and request.group_instance_id is None
        return is_new and self.caller.version >= MEMBER_ID_REQUIRED_FROM_VERSION
