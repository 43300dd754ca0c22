"""The first users of a new cluster: the file that names them, and that they may log in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from broker_node import ANY_PORTS, listener_of

from minikafka.broker.credentials import credentials_of
from minikafka.broker.first_users import USERS_MAX, FirstUser, first_records, first_users_of
from minikafka.broker.node import Node
from minikafka.chaos.probe import Entrance, probe
from minikafka.client import Admin, Security
from minikafka.config import BrokerConfig, ConfigError
from minikafka.errors import ErrorCode, KafkaError
from minikafka.sasl.scram import ScramMechanism

StartNode = Callable[..., Awaitable[Node]]

SHA_256, SHA_512 = ScramMechanism
GUARDED = {
    "listeners": f"{ANY_PORTS},SASL_PLAINTEXT://127.0.0.1:0",
    "connection_failed_authentication_delay_ms": 1,
}


def written(directory: Path, text: str) -> Path:
    path = directory / "users"
    path.write_text(text)
    return path


def users_of(path: Path) -> tuple[FirstUser, ...]:
    return first_users_of(BrokerConfig({"initial.scram.credentials.file": str(path)}))


def test_lines_are_as_for_kafkas_tool(tmp_path: Path) -> None:
    lines = (
        "# who may log in at first",
        "",
        "SCRAM-SHA-512=[name=admin,password=a secret=]",
        ' SCRAM-SHA-256=[ name="a,b", password="x,y]" , iterations=8192 ]',
    )
    assert users_of(written(tmp_path, "\n".join(lines))) == (
        FirstUser(SHA_512, "admin", "a secret=", 4096),
        FirstUser(SHA_256, "a,b", "x,y]", 8192),
    )
    assert first_users_of(BrokerConfig({})) == ()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("admin:hush", "it must be MECHANISM=[name=NAME,password=PASSWORD]"),
        ("SCRAM-SHA-1=[name=admin,password=hush]", "the mechanism must be SCRAM-SHA-256 or SCRAM-SHA-512"),
        ("SCRAM-SHA-512=[password=hush]", "name must have 1 to 1000 characters"),
        ("SCRAM-SHA-512=[name=admin]", "password is missing"),
        ("SCRAM-SHA-512=[name=admin,password=hush,iterations=1]", "iterations must be 4096 to 16384"),
        ("SCRAM-SHA-512=[name=admin,password=hush,iterations=²]", "iterations must be 4096 to 16384"),
        ("SCRAM-SHA-512=[name=admin,saltedpassword=hush]", "its options are name, password, iterations, each once"),
        ("SCRAM-SHA-512=[name=admin,password=hush,password=hush]", "its options are name, password, iterations"),
        ('SCRAM-SHA-512=[name=admin,password="hush]', "a value with a comma is in quotes"),
        ("SCRAM-SHA-512=[name=first,password=hush]", "the user has a password by that mechanism already"),
    ],
)
def test_a_mistake_is_told_by_file_and_line_without_the_password(tmp_path: Path, line: str, said: str) -> None:
    path = written(tmp_path, f"SCRAM-SHA-512=[name=first,password=hush]\n\n{line}\n")
    with pytest.raises(ConfigError) as refused:
        credentials_of(BrokerConfig({"initial.scram.credentials.file": str(path)}))
    (problem,) = refused.value.problems
    assert problem.startswith(f"initial.scram.credentials.file {path}, line 3: ")
    assert said in problem
    assert "hush" not in problem


def test_what_is_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        users_of(tmp_path / "users")
    (tmp_path / "users").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="not UTF-8"):
        users_of(tmp_path / "users")
    many = "\n".join(f"SCRAM-SHA-512=[name=user-{number},password=x]" for number in range(USERS_MAX + 1))
    with pytest.raises(ConfigError, match=f"line {USERS_MAX + 1}: a new cluster takes {USERS_MAX}"):
        users_of(written(tmp_path, many))


def test_each_has_a_salt_of_its_own_and_no_text_shows_a_password() -> None:
    users = [FirstUser(SHA_512, "a", "hush"), FirstUser(SHA_256, "a", "hush")]
    salts = iter([b"one", b"two"])
    records = list(first_records(users, lambda: next(salts)))
    made = [(each.user, each.mechanism, each.salt) for each in records]
    assert made == [("a", SHA_512, b"one"), ("a", SHA_256, b"two")]
    assert "hush" not in repr(users)


def login(password: str) -> Security:
    return Security(security_protocol="SASL_PLAINTEXT", sasl_username="admin", sasl_password=password)


async def logs_in(node: Node, password: str) -> bool:
    port = listener_of(node, "SASL_PLAINTEXT").endpoint.port
    try:
        async with Admin(f"127.0.0.1:{port}", security=login(password)) as admin:
            return bool(await admin.describe_cluster())
    except KafkaError as error:
        return error.code is not ErrorCode.SASL_AUTHENTICATION_FAILED


async def test_they_may_log_in_to_a_new_cluster_and_change_no_other(start_node: StartNode, tmp_path: Path) -> None:
    path = written(tmp_path, "SCRAM-SHA-512=[name=admin,password=first]")
    node = await start_node(**GUARDED, initial_scram_credentials_file=path)
    assert await logs_in(node, "first")
    entrance = Entrance(sasl=login("first").sasl())
    assert await asyncio.to_thread(probe, listener_of(node, "SASL_PLAINTEXT").endpoint, 10, entrance) is not None
    await node.stop()
    written(tmp_path, "SCRAM-SHA-512=[name=admin,password=second]")
    again = await start_node(**GUARDED, initial_scram_credentials_file=path)
    assert await logs_in(again, "first")
    assert not await logs_in(again, "second")
