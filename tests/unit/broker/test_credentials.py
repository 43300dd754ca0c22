"""Files and settings that cannot be used for TLS are named before a node starts."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme
from captured_logs import capture_logs
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from minikafka.broker.credentials import credentials_of, warn_of_readers
from minikafka.config import BrokerConfig, ConfigError

LISTENERS = "CLIENT://h:1,SSL://h:2,REPLICATION://h:3,CONTROLLER://h:4"
CERTIFICATE = trustme.CA().issue_cert("h")
KEY, CHAIN = CERTIFICATE.private_key_pem.bytes(), CERTIFICATE.cert_chain_pems[0].bytes()
ENCRYPTED = load_pem_private_key(KEY, None).private_bytes(
    Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"a password")
)
OTHER_KEY = trustme.CA().issue_cert("h").private_key_pem.bytes()
KEY_OF_OTHER_KIND = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def config(**settings: object) -> BrokerConfig:
    named = {name.replace("_", "."): str(value) for name, value in settings.items()}
    return BrokerConfig({"listeners": LISTENERS} | named)


def key_store(directory: Path, content: bytes) -> Path:
    path = directory / "node.pem"
    path.write_bytes(content)
    return path


def test_tls_is_for_listeners_that_are_called_ssl_or_named_in_the_map(tmp_path: Path) -> None:
    here = key_store(tmp_path, KEY + CHAIN)
    assert credentials_of(config(ssl_keystore_location=here)).tls is not None
    assert credentials_of(config(listener_security_protocol_map="SSL:PLAINTEXT")).tls is None
    named = config(listener_security_protocol_map="SSL:PLAINTEXT,CLIENT:SSL", ssl_keystore_location=here)
    assert [named.security_protocol(name) for name in ("CLIENT", "SSL", "CONTROLLER")] == ["SSL", *2 * ["PLAINTEXT"]]
    assert credentials_of(named).tls is not None


def test_a_key_may_be_encrypted(tmp_path: Path) -> None:
    here = key_store(tmp_path, ENCRYPTED + CHAIN)
    given = config(ssl_keystore_location=here, ssl_key_password="a password")
    assert credentials_of(given).tls is not None
    assert "a password" not in repr(given)


def test_it_is_said_which_secrets_others_may_read(tmp_path: Path) -> None:
    secret, key = tmp_path / "secret", tmp_path / "node.pem"
    absent = tmp_path / "gone by now"
    given = config(cluster_secret_file=secret, ssl_keystore_location=key, initial_scram_credentials_file=absent)
    for path in (secret, key):
        path.touch()
    for modes, said in (((0o600, 0o700), []), ((0o640, 0o604), ["0640", "0604"]), ((0o444, 0o620), ["0444"])):
        for path, mode in zip((secret, key), modes, strict=True):
            path.chmod(mode)
        with capture_logs() as logs:
            warn_of_readers(given)
        assert [each["mode"] for each in logs] == said
    assert (logs[0]["event"], logs[0]["log_level"]) == ("others may read a secret", "warning")
    assert (logs[0]["setting"], logs[0]["path"]) == ("cluster.secret.file", str(secret))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "ssl.keystore.location is not set; listener SSL needs a key and a certificate"),
        (
            {"listener_security_protocol_map": "SSL:TLS"},
            "each name once, with PLAINTEXT or SSL or SASL_PLAINTEXT or SASL_SSL; 'SSL:TLS' is",
        ),
        (
            {"listener_security_protocol_map": "HOST:SSL"},
            "listener.security.protocol.map: HOST is not one of listeners",
        ),
        (
            {"listener_security_protocol_map": "CONTROLLER:SSL", "ssl_keystore_location": "/k"},
            "ssl.truststore.location is not set; listener CONTROLLER needs it to check the other nodes",
        ),
        (
            {"ssl_keystore_location": "/k", "ssl_client_auth": "required"},
            "ssl.truststore.location is not set; listener SSL needs it for ssl.client.auth=required",
        ),
        (
            {"ssl_keystore_type": "JKS"},
            "ssl.keystore.type = 'JKS': must be PEM or PKCS12; make PKCS12 of it: keytool -importkeystore "
            "-srckeystore FILE -destkeystore FILE.p12 -deststoretype PKCS12",
        ),
    ],
)
def test_settings_that_do_not_fit_are_named(settings: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        config(**settings)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("content", "password", "said"),
    [
        (None, "", "No such file or directory"),
        (b"", "", "it must have a key and a certificate in PEM format"),
        (CHAIN, "", "it must have a key and a certificate in PEM format"),
        (KEY, "", "it must have a key and a certificate in PEM format"),
        (OTHER_KEY + CHAIN, "", "its certificate is not that of its key"),
        (KEY_OF_OTHER_KIND + CHAIN, "", "its certificate is not that of its key"),
        (ENCRYPTED + CHAIN, "", "its key is encrypted, and ssl.key.password is not its password"),
        (ENCRYPTED + CHAIN, "a guess", "its key is encrypted, and ssl.key.password is not its password"),
    ],
)
def test_a_key_store_that_cannot_be_used_is_named(
    content: bytes | None, password: str, said: str, tmp_path: Path
) -> None:
    here = tmp_path / "node.pem" if content is None else key_store(tmp_path, content)
    with pytest.raises(ConfigError) as raised:
        credentials_of(config(ssl_keystore_location=here, ssl_key_password=password))
    assert str(raised.value) == f"ssl.keystore.location {here}: {said}"


def test_a_trust_store_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    here = key_store(tmp_path, KEY + CHAIN)
    with pytest.raises(ConfigError, match=r"ssl\.truststore\.location /nowhere: No such file"):
        credentials_of(config(ssl_keystore_location=here, ssl_truststore_location="/nowhere"))
    (tmp_path / "empty").write_text("nothing, but the word ENCRYPTED")
    with pytest.raises(ConfigError, match="empty: it must have certificates in PEM format"):
        credentials_of(config(ssl_keystore_location=here, ssl_truststore_location=tmp_path / "empty"))
