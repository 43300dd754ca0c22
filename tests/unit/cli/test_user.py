"""``minikafka user``: what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import pytest
import typer

from minikafka.chaos.layout import ClusterLayout
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.cli import user
from minikafka.client import Admin
from minikafka.client.admin import ScramDeletion, ScramUpsertion
from minikafka.client.properties import security_of_file
from minikafka.errors import KafkaError


class _Users(Admin):
    """Who has which passwords, by mechanism."""

    def __init__(self) -> None:
        self.passwords: dict[str, dict[str, str]] = {}

    async def describe_user_scram_credentials(self, users: object = None) -> dict[str, dict[str, int]]:
        return {name: dict.fromkeys(passwords, 4096) for name, passwords in self.passwords.items()}

    async def alter_user_scram_credentials(self, changes: Iterable[ScramUpsertion | ScramDeletion]) -> None:
        for change in changes:
            assert isinstance(change, ScramUpsertion)
            self.passwords.setdefault(change.user, {})[change.mechanism] = change.password


@pytest.fixture
def users(monkeypatch: pytest.MonkeyPatch) -> _Users:
    """Of the cluster that the verbs talk to."""
    found = _Users()

    def run(work: Callable[[Admin], Awaitable[None]], *_: object) -> None:
        async def verb() -> None:
            await work(found)

        asyncio.run(verb())

    monkeypatch.setattr(user, "run_with_admin", run)
    return found


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClusterLayout:
    """Of a secure cluster that runs, as far as a verb asks."""
    monkeypatch.setattr(LocalCluster, "running", lambda _cluster: [1])
    made = ClusterLayout.create(tmp_path / "cluster", 1, 41_000, {}, secure=True)
    made.write_files()
    return made


def _file_of(password: str, tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text(password)
    return path


def test_a_new_password_leaves_none_of_before(
    users: _Users, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who has the old one would be let in by the other mechanism."""
    both = ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    user.add("bob", both, password_file=_file_of("old", tmp_path), bootstrap="host:1")
    user.add("bob", password_file=_file_of("new", tmp_path), bootstrap="host:1")
    assert users.passwords["bob"] == dict.fromkeys(both, "new")
    capsys.readouterr()
    user.add("bob", both[:1], password_file=_file_of("newer", tmp_path), bootstrap="host:1")
    assert "SCRAM-SHA-512 and the password of before" in capsys.readouterr().out
    user.add("eve", password_file=_file_of("x", tmp_path), bootstrap="host:1")
    assert users.passwords["eve"] == {"SCRAM-SHA-512": "x"}


def test_who_changes_his_own_password_is_told_of_the_file_with_the_old_one(
    users: _Users, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "bob.properties"
    login = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="bob" password="old";'
    file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config={login}\n")
    monkeypatch.setattr(user, "given_command_config", lambda: file)
    for name, password, is_told in (("eve", "new", False), ("bob", "old", False), ("bob", "new", True)):
        user.add(name, password_file=_file_of(password, tmp_path), bootstrap="host:1")
        assert (f"{file} has the password of before" in capsys.readouterr().out) is is_told
    user.add("bob", ["SCRAM-SHA-256"], password_file=_file_of("of no use", tmp_path), bootstrap="host:1")
    assert str(file) not in capsys.readouterr().out


def test_a_new_password_of_admin_is_in_its_files(users: _Users, layout: ClusterLayout, tmp_path: Path) -> None:
    """Verbs log in with these."""
    user.add("admin", password_file=_file_of('a "new" one\\', tmp_path), directory=layout.directory)
    user.add("eve", password_file=_file_of("x", tmp_path), directory=layout.directory)
    logins = [layout.security, security_of_file(layout.client_properties_file)]
    assert [how.login for how in logins] == [("admin", 'a "new" one\\')] * 2
    user.add("admin", ["SCRAM-SHA-256"], password_file=_file_of("of no use", tmp_path), directory=layout.directory)
    assert layout.security.login == ("admin", 'a "new" one\\')
    assert not layout.logins.password_file("eve").exists()


@pytest.mark.usefixtures("users")
@pytest.mark.parametrize("mechanism", [None, ["SCRAM-SHA-512"]])
def test_the_one_who_can_add_users_is_not_removed(layout: ClusterLayout, mechanism: list[str] | None) -> None:
    """Nobody would get in any more, not even to start the cluster."""
    with pytest.raises(typer.BadParameter, match="admin is whom the verbs log in as"):
        user.remove("admin", mechanism, directory=layout.directory)
    with pytest.raises(KafkaError, match="not found"):
        user.remove("admin", ["SCRAM-SHA-256"], directory=layout.directory)


@pytest.mark.usefixtures("users")
def test_a_user_that_is_not_there_cannot_be_removed() -> None:
    """Apache Kafka's words for it are of an attempt to describe something."""
    with pytest.raises(KafkaError, match="user 'bob' not found; see minikafka user list"):
        user.remove("bob")


def test_a_password_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_bytes(b"caf\xe9\n")
    with pytest.raises(typer.BadParameter, match="the password is not in UTF-8"):
        user.add("bob", password_file=path)
