"""Names in certificates, as Java writes them."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from minikafka.net.certificates import distinguished_name, expires_at_s

KEY = ec.generate_private_key(ec.SECP256R1())


def certificate(*parts: tuple[x509.ObjectIdentifier, str], kind: _ASN1Type | None = None) -> bytes:
    return of(x509.Name([x509.NameAttribute(*part, _type=kind) for part in parts]))


def of(subject: x509.Name, not_after: datetime = datetime(2060, 1, 1, tzinfo=UTC)) -> bytes:
    builder = x509.CertificateBuilder(
        issuer_name=x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "issuer")]),
        subject_name=subject,
        public_key=KEY.public_key(),
        serial_number=2**150 + 7,
        not_valid_before=datetime(2020, 1, 1, tzinfo=UTC),
        not_valid_after=not_after,
    )
    return builder.sign(KEY, SHA256()).public_bytes(Encoding.DER)


NAMES = [
    ([(NameOID.COMMON_NAME, "alice")], "CN=alice"),
    (
        [
            (NameOID.COUNTRY_NAME, "DE"),
            (NameOID.STATE_OR_PROVINCE_NAME, "Bayern"),
            (NameOID.LOCALITY_NAME, "Nürnberg"),
            (NameOID.ORGANIZATION_NAME, "Übung & Co, KG"),
            (NameOID.ORGANIZATIONAL_UNIT_NAME, ' a "b"; <c>\\+ '),
            (NameOID.COMMON_NAME, "#1=x"),
        ],
        'CN=\\#1\\=x,OU=\\ a \\"b\\"\\; \\<c\\>\\\\\\+\\ ,O=Übung & Co\\, KG,L=Nürnberg,ST=Bayern,C=DE',
    ),
    (
        [(NameOID.DOMAIN_COMPONENT, "org"), (NameOID.USER_ID, "u"), (NameOID.STREET_ADDRESS, "s")],
        "STREET=s,UID=u,DC=org",
    ),
    ([(NameOID.EMAIL_ADDRESS, "a@b")], "1.2.840.113549.1.9.1=#1603614062"),
    ([(NameOID.COMMON_NAME, "  #a=b#\0 \r")], "CN=\\ \\ \\#a\\=b\\#\\00\\ \\\r"),
    ([(NameOID.COMMON_NAME, "   ")], "CN=\\ \\ \\ "),
    ([], ""),
]
"""Java 17 gives the same."""


@pytest.mark.parametrize(("parts", "name"), NAMES)
def test_names(parts: list[tuple[x509.ObjectIdentifier, str]], name: str) -> None:
    assert distinguished_name(certificate(*parts)) == name


@pytest.mark.parametrize("kind", [_ASN1Type.IA5String, _ASN1Type.T61String, _ASN1Type.UTF8String])
def test_text_is_utf_8_whatever_it_claims_to_be(kind: _ASN1Type) -> None:
    assert distinguished_name(certificate((NameOID.COMMON_NAME, "René"), kind=kind)) == "CN=René"


def test_bytes_that_are_no_text_are_replaced() -> None:
    whole = certificate((NameOID.COMMON_NAME, "René"))
    assert distinguished_name(whole.replace("René".encode(), b"Ren\xc3\xff")) == "CN=Ren��"


def test_a_part_may_have_several_attributes() -> None:
    both = [x509.NameAttribute(NameOID.USER_ID, "7"), x509.NameAttribute(NameOID.COMMON_NAME, "alice")]
    subject = x509.Name([x509.RelativeDistinguishedName(both)])
    assert sorted(distinguished_name(of(subject)).split("+")) == ["CN=alice", "UID=7"]


@pytest.mark.parametrize("year", [2020, 2049, 2050, 9999])
def test_the_end_of_its_life(year: int) -> None:
    """With two digits of the year before 2050."""
    end = datetime(year, 12, 31, 23, 59, 58, tzinfo=UTC)
    assert expires_at_s(of(x509.Name([]), end)) == end.timestamp()


@given(st.binary(max_size=64))
def test_other_bytes_are_refused(data: bytes) -> None:
    for read in (distinguished_name, expires_at_s):
        with suppress(ValueError):
            read(data)


@given(st.data())
def test_a_changed_certificate_is_a_name_or_refused(data: st.DataObject) -> None:
    whole = bytearray(WHOLE)
    whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    for read in (distinguished_name, expires_at_s):
        with suppress(ValueError):
            read(bytes(whole))


WHOLE = certificate(*NAMES[1][0])
