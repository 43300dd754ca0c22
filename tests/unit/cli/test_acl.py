"""``minikafka acl``: what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
import typer

from minikafka.cli import acl
from minikafka.client import Admin
from minikafka.security.acls import AclBinding


@pytest.mark.parametrize(
    "options", [{"operation": ["read"]}, {"allow_host": ["10.0.0.7"]}, {"producer": True}, {"idempotent": True}]
)
def test_some_acls_of_a_resource_are_not_taken_for_all_of_them(options: dict[str, Any]) -> None:
    """Its denials would go, too."""
    given = acl.Given(topic=["orders"], **options)
    with pytest.raises(typer.BadParameter, match="allow-principal"):
        acl.remove(**{name: getattr(given, name) for name in acl.Given.__slots__})


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"deny_principal": ["user:bob"]}, "'user:bob' is nobody"),
        ({"deny_principal": ["User:"]}, "'User:' is nobody"),
        ({"deny_principal": ["User:bob"], "deny_host": ["10.0.0.0/8"]}, "'10.0.0.0/8' is no IP address"),
        ({"deny_principal": ["User:bob"], "topic": ["orders*"]}, "these are --topic orders --pattern-type prefixed"),
        ({"deny_principal": ["User:bob"], "group": ["mail-*"]}, "these are --group mail- --pattern-type prefixed"),
        (
            {"deny_principal": ["User:bob"], "topic": ["*"], "resource_pattern_type": acl.Pattern.PREFIXED},
            r"these are --topic '\*', literal",
        ),
        ({"deny_principal": ["User:bob"], "topic": ["orders,bills"]}, "repeat --topic"),
        ({"allow_principal": ["User:bob"], "allow_host": ["gate.example.org"]}, "is no IP address"),
    ],
)
def test_an_acl_is_about_somebody_and_something(options: dict[str, Any], why: str) -> None:
    """Who denies something to a network must not believe that it is done."""
    given = acl.Given(**{"topic": ["orders"]} | options)
    with pytest.raises(typer.BadParameter, match=why):
        acl.add(**{name: getattr(given, name) for name in acl.Given.__slots__})


def test_nothing_is_removed_without_a_word_where_an_operation_was_meant(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Acls(Admin):
        def __init__(self) -> None: ...

        async def delete_acls(self, filters: object) -> list[AclBinding]:
            return []

    def run(work: Callable[[Admin], Awaitable[None]], *_: object) -> None:
        asyncio.run(_awaited(work(Acls())))

    monkeypatch.setattr(acl, "run_with_admin", run)
    given = acl.Given(topic=["orders"], allow_principal=["User:bob"])
    for operation, is_told in ((None, True), (["read"], False)):
        given = replace(given, operation=operation)
        acl.remove(**{name: getattr(given, name) for name in acl.Given.__slots__}, bootstrap="host:1")
        assert ("name others by --operation: minikafka acl list -b host:1" in capsys.readouterr().out) is is_told


async def _awaited(work: Awaitable[None]) -> None:
    await work
