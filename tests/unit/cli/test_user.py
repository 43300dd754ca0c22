"""``minikafka user``: what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import typer

from minikafka.cli import user
from minikafka.client import Admin
from minikafka.errors import KafkaError


class _NoUsers(Admin):
    def __init__(self) -> None:
        """Nothing to connect to."""

    async def describe_user_scram_credentials(self, users: object = None) -> dict[str, dict[str, int]]:
        return {}


def test_a_user_that_is_not_there_cannot_be_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Apache Kafka's words for it are of an attempt to describe something."""

    def run(work: Callable[[Admin], Awaitable[None]], *_: object) -> None:
        async def verb() -> None:
            await work(_NoUsers())

        asyncio.run(verb())

    monkeypatch.setattr(user, "run_with_admin", run)
    with pytest.raises(KafkaError, match="user 'bob' not found; see minikafka user list"):
        user.remove("bob")


def test_a_password_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_bytes(b"caf\xe9\n")
    with pytest.raises(typer.BadParameter, match="the password is not in UTF-8"):
        user.add("bob", password_file=path)
