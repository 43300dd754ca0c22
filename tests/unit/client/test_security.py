"""How a client connects, by Kafka's names: files and their text, and what is said of those that cannot be used."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from minikafka.client.properties import security_of, security_of_file
from minikafka.client.security import PLAIN, Security

AUTHORITY = trustme.CA()
OWN = AUTHORITY.issue_cert("alice@example.org")
TRUSTED = AUTHORITY.cert_pem.bytes().decode()
KEY = OWN.private_key_pem.bytes().decode()
CHAIN = "".join(blob.bytes().decode() for blob in OWN.cert_chain_pems)


@pytest.fixture
def trusted(tmp_path: Path) -> Path:
    path = tmp_path / "ca.pem"
    path.write_text(TRUSTED)
    return path


def test_a_file_for_the_client_of_java_is_taken_as_it_is(tmp_path: Path, trusted: Path) -> None:
    own = tmp_path / "own.pem"
    own.write_text(KEY + CHAIN)
    file = tmp_path / "client.properties"
    file.write_text(
        "bootstrap.servers=localhost:9092\nacks=all\nsecurity.protocol=ssl\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={trusted}\nssl.keystore.location={own}\nssl.protocol=TLSv1.3\n"
    )
    security = security_of_file(file)
    assert security == Security(
        security_protocol="SSL", ssl_truststore_location=str(trusted), ssl_keystore_location=str(own)
    )
    context = security.context()
    assert context is not None
    assert context.check_hostname
    assert len(context.get_ca_certs()) == 1


def test_certificates_may_be_given_as_text() -> None:
    given = {
        "security.protocol": "SSL",
        "ssl.truststore.certificates": TRUSTED,
        "ssl.keystore.key": KEY,
        "ssl.keystore.certificate.chain": CHAIN,
        "ssl.endpoint.identification.algorithm": "",
    }
    security = security_of(given)
    context = security.context()
    assert isinstance(context, ssl.SSLContext)
    assert not context.check_hostname
    assert KEY not in repr(security)
    with pytest.raises(ValueError, match=r"ssl\.keystore: its text must have a certificate and its key"):
        security_of(given | {"ssl.keystore.key": "no key"})


def test_without_tls_nothing_of_it_counts() -> None:
    assert security_of({"client.id": "me"}) == PLAIN
    assert security_of({"ssl.truststore.location": "/nowhere"}).context() is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"security.protocol": "TLS"}, "security.protocol is 'TLS'; it must be PLAINTEXT or SSL"),
        ({"ssl.cipher.suites": "X"}, "ssl.cipher.suites cannot be set here; security.protocol, "),
        ({"ssl.truststore.location": "/nowhere"}, "ssl.truststore.location /nowhere: No such file or directory"),
        ({"ssl.keystore.location": "/nowhere"}, "ssl.keystore.location /nowhere: No such file or directory"),
        ({"ssl.truststore.certificates": "x", "ssl.truststore.location": "y"}, "are both set; keep one"),
        ({"ssl.keystore.key": "x"}, "ssl.keystore.key and ssl.keystore.certificate.chain are set together"),
        ({"ssl.endpoint.identification.algorithm": "http"}, "is 'http'; it must be 'https' or ''"),
        (
            {"ssl.truststore.type": "jks", "ssl.truststore.location": "/t.jks"},
            "ssl.truststore.type is JKS; it must be PEM or PKCS12; make PKCS12 of it: keytool -importkeystore "
            "-srckeystore /t.jks -destkeystore /t.p12 -deststoretype PKCS12",
        ),
        ({"ssl.keystore.type": "BCFKS"}, "ssl.keystore.type is BCFKS; it must be PEM or PKCS12"),
    ],
)
def test_what_cannot_be_used_is_named(given: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=r"^") as raised:
        security_of({"security.protocol": "SSL"} | given)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    with pytest.raises(ValueError, match="No such file"):
        security_of_file(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="it is not UTF-8 text"):
        security_of_file(path)
    path.write_text("a=1\na=2\n")
    with pytest.raises(ValueError, match="a is given twice"):
        security_of_file(path)


def test_a_mark_at_the_beginning_hides_no_line(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("security.protocol=SSL\n", encoding="utf-8-sig")
    assert security_of_file(path).security_protocol == "SSL"


def test_a_password_is_never_asked_for_at_the_terminal(tmp_path: Path, trusted: Path) -> None:
    path = tmp_path / "own.pem"
    key = load_pem_private_key(KEY.encode(), None)
    encrypted = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    path.write_bytes(encrypted + CHAIN.encode())
    given = {"security.protocol": "SSL", "ssl.truststore.location": str(trusted), "ssl.keystore.location": str(path)}
    assert security_of(given | {"ssl.key.password": "secret"}).context() is not None
    with pytest.raises(ValueError, match=r"its key is encrypted, and ssl\.key\.password is not"):
        security_of(given)
