"""Keys and trusted certificates in files of Java, and what is said of those that cannot be used."""

from __future__ import annotations

import os
import ssl
import sys
from base64 import b64decode
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from cryptography.x509 import (
    Certificate,
    CertificateBuilder,
    Name,
    load_pem_x509_certificate,
    random_serial_number,
)

from minikafka.broker.tls import Tls
from minikafka.client import Security
from minikafka.config import BrokerConfig
from minikafka.net.certificates import distinguished_name
from minikafka.net.stores import SIZE_MAX, Store, StoreError, load_key, trusted_pem, with_trusted

PASSWORD = "a secret"
ROOT = trustme.CA()
BELOW = ROOT.create_child_ca()
OWN = BELOW.issue_cert("localhost")
OWN_CHAIN = [load_pem_x509_certificate(blob.bytes()) for blob in OWN.cert_chain_pems]
BELOW_NAME = OWN_CHAIN[0].issuer
SHA1_WITH_RSA, SHA256_WITH_RSA = (bytes.fromhex(f"2a864886f70d0101{number}") for number in ("05", "0b"))
TRUSTED = load_pem_x509_certificate(ROOT.cert_pem.bytes())


def pkcs12(path: Path, certificates: list[Certificate], *, key: bool = False, password: str | None = PASSWORD) -> str:
    own = load_pem_private_key(OWN.private_key_pem.bytes(), None) if key else None
    how: KeySerializationEncryption = NoEncryption()
    if password is not None:
        how = BestAvailableEncryption(password.encode())
    first, others = (certificates[0], certificates[1:]) if key else (None, certificates)
    path.write_bytes(serialize_key_and_certificates(b"own", own, first, others, how))  # type: ignore[arg-type]
    return str(path)


def connected(server: ssl.SSLContext, client: ssl.SSLContext) -> ssl.SSLObject:
    """The client's end of a handshake in memory."""
    ways = [ssl.MemoryBIO() for _ in range(4)]
    ours = client.wrap_bio(ways[0], ways[1], server_hostname="localhost")
    theirs = server.wrap_bio(ways[2], ways[3], server_side=True)
    for _ in range(4):
        for end, to, come in ((ours, ways[2], ways[1]), (theirs, ways[0], ways[3])):
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
            to.write(come.read())
    return ours


def test_a_broker_and_a_client_prove_themselves_by_files_in_pkcs12(tmp_path: Path) -> None:
    own = pkcs12(tmp_path / "own.p12", [OWN_CHAIN[0], TRUSTED, *OWN_CHAIN[1:]], key=True)  # in no order
    trusted = pkcs12(tmp_path / "ca.p12", [TRUSTED])
    stores = {"keystore": own, "truststore": trusted}
    settings = {"listeners": "CLIENT://h:1,SSL://h:2,REPLICATION://h:3,CONTROLLER://h:4", "ssl.client.auth": "required"}
    for name, path in stores.items():
        settings |= {f"ssl.{name}.{what}": value for what, value in zip(WHAT, ("PKCS12", path, PASSWORD), strict=True)}
    config = BrokerConfig(settings)
    client = Security(
        security_protocol="SSL",
        ssl_truststore_type="PKCS12",
        ssl_truststore_location=trusted,
        ssl_truststore_password=PASSWORD,
        ssl_keystore_type="PKCS12",
        ssl_keystore_location=own,
        ssl_keystore_password=PASSWORD,
    )
    context = client.context()
    assert context is not None
    certificate = connected(Tls(config).accepting("SSL"), context).getpeercert(binary_form=True)
    assert certificate == OWN_CHAIN[0].public_bytes(Encoding.DER)
    described = [entry for entry in config.describe() if entry.name.startswith("ssl.")]
    assert PASSWORD not in f"{config!r} {client!r} {client.key_store!r} {described}"


WHAT = ("type", "location", "password")


def test_a_trust_store_has_certificates_alone(tmp_path: Path) -> None:
    """Of others it is not known whether they were put there to be trusted."""
    here = Store("ssl.truststore", pkcs12(tmp_path / "ca.p12", [TRUSTED, OWN_CHAIN[1]]), "PKCS12", PASSWORD)
    assert trusted_pem(here).count("BEGIN CERTIFICATE") == 2
    own = here._replace(location=pkcs12(tmp_path / "own.p12", OWN_CHAIN, key=True))
    with pytest.raises(StoreError, match="it has a private key; a trust store must have certificates alone"):
        trusted_pem(own)


def test_the_password_of_the_key_may_stand_for_that_of_the_store(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    location = pkcs12(tmp_path / "own.p12", OWN_CHAIN, key=True)
    load_key(context, Store("ssl.keystore", location, "PKCS12", key_password=PASSWORD))
    load_key(context, Store("ssl.keystore", location, "PKCS12", PASSWORD, PASSWORD))
    with pytest.raises(StoreError, match=r"ssl\.key\.password is not ssl\.keystore\.password"):
        load_key(context, Store("ssl.keystore", location, "PKCS12", PASSWORD, "another"))
    without = pkcs12(tmp_path / "open.p12", OWN_CHAIN, key=True, password=None)
    load_key(context, Store("ssl.keystore", without, "PKCS12"))


JKS = b"\xfe\xed\xfe\xed\0\0\0\2"


@pytest.mark.parametrize(
    ("content", "store_format", "said"),
    [
        (None, "PKCS12", "ssl.keystore.password is not its password, or it is damaged"),
        (OWN.private_key_pem.bytes(), "PKCS12", "it is not PKCS12, as ssl.keystore.type says"),
        (b"", "PKCS12", "it is not PKCS12, as ssl.keystore.type says"),
        (JKS, "PKCS12", "it is JKS; make PKCS12 of it: keytool -importkeystore -srckeystore {0}.jks -destkeystore "),
        (
            JKS,
            "PEM",
            "it is JKS; make PKCS12 of it: keytool -importkeystore -srckeystore {0}.jks -destkeystore {0}.p12",
        ),
        (None, "PEM", "it is PKCS12; set ssl.keystore.type=PKCS12 and ssl.keystore.password"),
        (b"0\x82", "PEM", "it must have a key and a certificate in PEM format"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(
    content: bytes | None, store_format: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "store.jks"
    if content is None:
        pkcs12(path, OWN_CHAIN, key=True)
    else:
        path.write_bytes(content)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with pytest.raises(StoreError) as raised:
        load_key(context, Store("ssl.keystore", str(path), store_format, "a guess"))
    expected = f"ssl.keystore.location {path}: {said.format(tmp_path / 'store')}"
    assert str(raised.value).startswith(expected)
    assert "\n" not in str(raised.value)
    assert "a guess" not in str(raised.value)
    with pytest.raises(StoreError, match="No such file"):
        load_key(context, Store("ssl.keystore", "/nowhere", store_format))
    if store_format == "PEM":
        with pytest.raises(StoreError, match=r"it is|it must have certificates"):
            with_trusted(context.load_verify_locations, Store("ssl.truststore", str(path)))


@pytest.mark.parametrize("kind", ["PEM", "PKCS12"])
def test_what_has_no_end_is_not_read(tmp_path: Path, kind: str) -> None:
    """OpenSSL would read it until no memory is left, or wait for ever."""
    pipe, large = tmp_path / "pipe", tmp_path / "large"
    os.mkfifo(pipe)
    with large.open("wb") as file:
        file.truncate(SIZE_MAX + 1)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for path, said in ((Path("/dev/zero"), "not a file"), (pipe, "not a file"), (large, f"{SIZE_MAX + 1} bytes")):
        with pytest.raises(StoreError, match=f"{path}: it (is|has) {said}"):
            load_key(context, Store("ssl.keystore", str(path), kind))
        with pytest.raises(StoreError, match=f"{path}: it (is|has) {said}"):
            with_trusted(context.load_verify_locations, Store("ssl.truststore", str(path), kind))


@pytest.mark.parametrize("kind", ["PEM", "PKCS12"])
def test_a_key_that_openssl_finds_too_small(tmp_path: Path, kind: str) -> None:
    key, name = generate_private_key(65537, 1024), Name([])
    now = datetime.now(UTC)
    builder = CertificateBuilder(name, name, key.public_key(), random_serial_number(), now, now + timedelta(days=1))
    own, path = builder.sign(key, SHA256()), tmp_path / "store"
    if kind == "PEM":
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + own.public_bytes(Encoding.PEM)
        path.write_bytes(pem)
    else:
        path.write_bytes(serialize_key_and_certificates(b"own", key, own, None, NoEncryption()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("DEFAULT@SECLEVEL=2")
    with pytest.raises(StoreError, match=f"{path}: OpenSSL does not take its key or certificate: ee key too small"):
        load_key(context, Store("ssl.keystore", str(path), kind))


@pytest.mark.skipif(ssl.OPENSSL_VERSION_INFO >= (3, 5), reason="this OpenSSL does not look at how it was signed")
def test_a_certificate_that_openssl_finds_too_weak(tmp_path: Path) -> None:
    """It is in PEM format, and needs no other."""
    key = generate_private_key(65537, 2048)
    now = datetime.now(UTC)
    builder = CertificateBuilder(Name([]), BELOW_NAME, key.public_key(), 7, now, now + timedelta(days=1))
    signed = builder.sign(key, SHA256()).public_bytes(Encoding.DER)
    path = tmp_path / "store"
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    path.write_text(pem + ssl.DER_cert_to_PEM_cert(signed.replace(SHA256_WITH_RSA, SHA1_WITH_RSA)))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("DEFAULT@SECLEVEL=2")
    with pytest.raises(StoreError, match=f"{path}: OpenSSL does not take its key or certificate: ca md too weak"):
        load_key(context, Store("ssl.keystore", str(path)))


def test_what_is_no_name_of_a_file() -> None:
    with pytest.raises(StoreError, match=r"it cannot be a file's name: .*embedded null"):
        load_key(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), Store("ssl.keystore", "a\0b"))


def test_a_file_without_what_is_looked_for_is_named(tmp_path: Path) -> None:
    no_key = Store("ssl.keystore", pkcs12(tmp_path / "ca.p12", [TRUSTED]), "PKCS12", PASSWORD)
    with pytest.raises(StoreError, match="it must have a key and its certificate"):
        load_key(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), no_key)


def test_without_cryptography_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    with pytest.raises(StoreError, match=r"type=PKCS12 needs cryptography; get it with: pip install 'minikafka\[sec"):
        trusted_pem(Store("ssl.truststore", str(tmp_path / "ca.p12"), "PKCS12"))


OF_KEYTOOL = b64decode("""
MIICsgIBAzCCAlwGCSqGSIb3DQEHAaCCAk0EggJJMIICRTCCAkEGCSqGSIb3DQEHBqCCAjIwggIuAgEAMIICJwYJKoZIhvcNAQcBMGYGCSqGSIb3DQEF
DTBZMDgGCSqGSIb3DQEFDDArBBRhkjumlSGRBGKlNlsyGFM8oOyX2AICJxACASAwDAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEENt4GVZjuimXqbpc
Vx6GuLiAggGwqKh2LwqI2MK3L7VkRICmk8f6yK/WdbQKCRlxclUxODDOjLDh/Hnvg51Dljw5jNBlNnyp0R7d0if+1g4Fk4bsoV9tzzSyhHDB13VBUq9Y
LCzHppONuZ240VLJSQ+gQYcNBiBKe3/9CcX8Tvrgc8a+WJPmLiL0kB1+gIA5JXyjDkcQQmhFDy2rm2VAmcT8kxaTtU/24i2MSArcDiVlgMbbmNLCUakm
NE+wCFRA0lv7uAaIbw91cW+CI9uhbVh+roG2tF1vHN0F0sHent+LA4FwQjK5JMz428uNmlUcykcRf2KhNCjx1gliAML5NZazYz9FuB2Zqi4jf0oPIevN
dV6X6pGY6+JZGmFx8Yk66XLTxF51ocrVc9jDybWvu6hwSA4Yax1kKmGdT++cjuOY68jBCqyAns2NPV1uPJ3UMQO2FfyQt9R3wU1JtrqfYp5DrEwEovzv
jTcIoKsLQtaf3ZNJPHF+RWAVlTveJCKj4BAiHCDiD87IZc3vrSQBBI5naY6DvGe5qMHzEwWqb3LUpjYdaKsnpm8F5ToN0wWGSPjpMc5H8GfV70Tnq5/A
g7/FlnZmME0wMTANBglghkgBZQMEAgEFAAQg8X8eqTMQd908MQhTghie6KKr2/5AgC9Mun5I+ZwVMDwEFNzIPkfHjPt+tXPOsqzobk9dPqHuAgInEA==
""")
"""Of Java 17: keytool -importcert -storetype PKCS12, of a certificate of CN=h."""


def test_what_javas_keytool_makes_is_read(tmp_path: Path) -> None:
    (tmp_path / "ca.p12").write_bytes(OF_KEYTOOL)
    pem = trusted_pem(Store("ssl.truststore", str(tmp_path / "ca.p12"), "PKCS12", PASSWORD))
    assert distinguished_name(ssl.PEM_cert_to_DER_cert(pem)) == "CN=h"
