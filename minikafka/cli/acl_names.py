"""Whom and what an ACL is about: names of nobody and nothing are refused.

Such an ACL, which Apache Kafka takes, would deny nobody anything.
"""

from __future__ import annotations

import re
import shlex
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

import typer

if TYPE_CHECKING:
    from minikafka.cli.acl import Given

_OF_TOPICS: Final = re.compile(r"[a-zA-Z0-9._-]*")


def check_somebody_is_meant(given: Given) -> None:
    """Raise BadParameter for who or where nobody is, and for what cannot be."""
    for option, principals in (("allow", given.allow_principal), ("deny", given.deny_principal)):
        for principal in principals or ():
            if not principal.removeprefix("User:") or not principal.startswith("User:"):
                raise typer.BadParameter(
                    f"{principal!r} is nobody; write User:NAME", param_hint=f"--{option}-principal"
                )
    for option, hosts in (("allow", given.allow_host), ("deny", given.deny_host)):
        for host in hosts or ():
            if host != "*" and not _is_address(host):
                message = f"{host!r} is no IP address, and connections come from those: not from networks and names"
                raise typer.BadParameter(message, param_hint=f"--{option}-host")
    is_prefix = given.resource_pattern_type.value == "prefixed"
    for option, names in (("topic", given.topic), ("group", given.group), ("transactional-id", given.transactional_id)):
        for name in names or ():
            _check_name(f"--{option}", name, is_prefix)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _check_name(option: str, name: str, is_prefix: bool) -> None:
    """A group may have a * in its name. Who writes one rather means many."""
    begin, star, _ = name.partition("*")
    if star and (name != "*" or is_prefix):
        many = f"{option} {shlex.quote(begin)} --pattern-type prefixed" if begin else f"{option} '*', literal"
        raise typer.BadParameter(f"{name!r} is one name, and not many; these are {many}", param_hint=option)
    if option == "--topic" and not star and _OF_TOPICS.fullmatch(name) is None:
        message = f"{name!r} can be no topic; repeat {option} for several"
        raise typer.BadParameter(message, param_hint=option)
