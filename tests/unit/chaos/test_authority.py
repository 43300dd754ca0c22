"""Certificates and passwords of a secure cluster: who has which, and who may read it."""

from __future__ import annotations

import os
import ssl
import stat
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from minikafka.broker.first_users import first_users_of
from minikafka.chaos.authority import Authority
from minikafka.chaos.layout import ClusterError, ClusterLayout
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.chaos.ports import free_base_port
from minikafka.client.properties import security_of_file
from minikafka.config import BrokerConfig, parse_properties


@pytest.fixture
def layout(tmp_path: Path) -> ClusterLayout:
    made = ClusterLayout.create(tmp_path / "c", brokers=2, base_port=19092, settings={}, secure=True)
    made.write_files()
    return made


def test_each_node_and_a_client_have_a_key_that_nobody_else_reads(layout: ClusterLayout) -> None:
    files = {path.name: path for path in layout.security_directory.iterdir()}
    of_users = {f"{user}.{kind}" for user in ("admin", "user") for kind in ("password", "properties")}
    assert set(files) == {"ca.pem", "ca.key", "node-1.pem", "node-2.pem", "client.pem", "users"} | of_users
    assert {stat.S_IMODE(path.stat().st_mode) for path in files.values()} == {0o600}
    for directory in (layout.security_directory, layout.node_directory(1), layout.node_directory(2)):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_nobody_else_exchanges_its_secrets_whatever_the_umask(tmp_path: Path) -> None:
    """Who puts another secret in the place of the cluster's is a node from the next start on."""
    before = os.umask(0)
    try:
        made = ClusterLayout.create(tmp_path / "open", brokers=1, base_port=19092, settings={}, secure=True)
        made.write_files()
    finally:
        os.umask(before)
    for directory in (made.directory, made.security_directory, made.node_directory(1)):
        assert not stat.S_IMODE(directory.stat().st_mode) & 0o022


def test_all_of_a_cluster_is_encrypted(layout: ClusterLayout) -> None:
    config = BrokerConfig(parse_properties(layout.server_properties(1)))
    protocols = {name: config.security_protocol(name) for name in config.listeners}
    assert protocols == {"CLIENT": "SASL_SSL", "REPLICATION": "SSL", "CONTROLLER": "SSL"}
    assert ClusterLayout.open(layout.directory) == layout


def test_an_admin_and_a_user_have_passwords(layout: ClusterLayout) -> None:
    config = BrokerConfig(parse_properties(layout.server_properties(1)))
    passwords = {user: layout.logins.password_file(user).read_text() for user in ("admin", "user")}
    assert {each.name: each.password for each in first_users_of(config)} == passwords
    assert len({*passwords.values()}) == 2
    assert config.super_users == ("User:admin",)
    for user in passwords:
        logins = [layout.security_of(user), security_of_file(layout.logins.properties_file(user))]
        assert [how.login for how in logins] == [(user, passwords[user])] * 2
        assert passwords[user] not in repr(logins)
    with pytest.raises(ClusterError, match="'eve' has no password here; admin and user have"):
        layout.security_of("eve")
    layout.logins.password_file("admin").write_text("written by an editor\n")
    assert layout.security_of("admin").login == ("admin", "written by an editor")


@pytest.mark.parametrize(
    ("content", "why"), [(b"", "is empty"), (b"\n", "is empty"), (b"caf\xe9", "is not UTF-8"), (None, "No such file")]
)
def test_a_password_that_is_not_there_is_not_chosen_anew(
    layout: ClusterLayout, content: bytes | None, why: str
) -> None:
    """The nodes know another one by then."""
    path = layout.logins.password_file("admin")
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    layout.write_files()
    with pytest.raises(ClusterError, match=rf"admin\.password, .*{why}"):
        layout.security_of("admin")
    assert path.exists() == (content is not None)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"super.users": "User:me"}, "super.users must have User:admin, too"),
        ({"sasl.enabled.mechanisms": "SCRAM-SHA-256"}, "must have SCRAM-SHA-512, too"),
        ({"super.users": "User:me;User:admin", "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512"}, None),
    ],
)
def test_settings_leave_admin_its_rights(tmp_path: Path, settings: dict[str, str], why: str | None) -> None:
    """A cluster was made in which nobody could add the users that are named."""
    cluster = LocalCluster.create(
        tmp_path / "x", brokers=1, base_port=free_base_port(1), settings=settings, secure=True
    )
    with nullcontext() if why is None else pytest.raises(ClusterError, match=why):
        cluster.check()


def test_files_for_java_are_in_ascii(tmp_path: Path) -> None:
    """It reads them as Latin-1: the file that is trusted would not be found."""
    layout = ClusterLayout.create(tmp_path / "Zürich 😀", brokers=1, base_port=19092, settings={}, secure=True)
    layout.write_files()
    for file in (layout.client_properties_file, layout.config_file(1)):
        assert file.read_bytes().isascii()
    trusted = security_of_file(layout.client_properties_file).ssl_truststore_location
    assert trusted == str(layout.authority.certificate_file)
    config = BrokerConfig(parse_properties(layout.config_file(1).read_text()))
    assert config.ssl_truststore_location == trusted


def test_a_cluster_that_asks_nobody_has_no_users(tmp_path: Path) -> None:
    plain = ClusterLayout.create(tmp_path / "p", brokers=1, base_port=19092, settings={})
    with pytest.raises(ClusterError, match="'admin' is no user"):
        plain.security_of("admin")


def test_properties_may_be_taken_elsewhere(layout: ClusterLayout) -> None:
    """They have the certificate itself then, for clients on another machine than the files."""
    layout.logins.properties_file("user").unlink()
    layout.logins.make_missing(portable=True)
    taken = security_of_file(layout.logins.properties_file("user"))
    assert str(layout.directory) not in layout.logins.properties_file("user").read_text()
    assert taken.ssl_truststore_certificates == layout.authority.certificate_file.read_text().rstrip()
    assert taken.login == layout.security_of("user").login


def test_a_node_that_is_added_gets_a_certificate_of_the_same_authority(layout: ClusterLayout) -> None:
    before = {path: path.read_bytes() for path in layout.security_directory.iterdir()}
    layout.with_added_node().write_files()
    assert {path: path.read_bytes() for path in before} == before
    assert shakes_hands(layout, "node-3", "127.0.0.1")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_client_and_a_node_accept_each_other(layout: ClusterLayout, host: str) -> None:
    assert shakes_hands(layout, "node-1", host)


def test_a_certificate_is_for_its_own_hosts_only(layout: ClusterLayout) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
        shakes_hands(layout, "node-1", "127.0.0.2")


def test_without_cryptography_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(ClusterError, match=r"pip install 'minikafka\[secure\]'"):
        Authority(tmp_path / "security").issue_missing({"node-1": ()})
    assert not (tmp_path / "security").exists()


def shakes_hands(layout: ClusterLayout, node: str, host: str) -> bool:
    """By the strictest checks, those of Python 3.13."""
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=layout.authority.certificate_file)
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_cert_chain(layout.security_directory / f"{node}.pem")
    client = layout.authority.security.context()
    assert client is not None
    for context in (server, client):
        context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    there = server.wrap_bio(to_server, to_client, server_side=True)
    here = client.wrap_bio(to_client, to_server, server_hostname=host)
    for _ in range(10):
        done = [_step(side) for side in (here, there)]
        if all(done):
            return True
    return False


def _step(side: ssl.SSLObject) -> bool:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True
