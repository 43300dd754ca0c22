"""Whom a certificate names: its subject's distinguished name as text (RFC 2253), as Java and so Kafka's ACLs write it.
And how long it holds.

OpenSSL has verified the certificate; this reads its DER only as far as the subject. Python's own reader fails at odd
names.
"""

from __future__ import annotations

import re
from calendar import timegm
from collections.abc import Iterator
from typing import Final, NamedTuple

_NAMES: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""Of attributes; others are written as numbers, with their values in hexadecimal."""
_ENCODINGS: Final = {0x1E: "utf-16-be"} | dict.fromkeys((0x0C, 0x13, 0x14, 0x16, 0x1B), "utf-8")
"""Of kinds of text. Whatever a kind allows, Java reads UTF-8."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_OUTER_BLANKS: Final = re.compile(r"\A[ \r]+|[ \r]+\Z")
_VERSION: Final = 0xA0
_SHORT_TIME: Final = 0x17
"""With two digits for the year."""


class _Element(NamedTuple):
    """Of DER: its tag, its content, and all of its bytes."""

    tag: int
    content: bytes
    whole: bytes


def distinguished_name(certificate: bytes) -> str:
    """Of the subject of a certificate in DER: ``CN=alice,O=example``, the last part first. ValueError if it is none."""
    try:
        subject = _fields(certificate)[4].content
        return ",".join(reversed([_part(part.content) for part in _elements(subject)]))
    except (IndexError, StopIteration) as error:
        raise ValueError("not an X.509 certificate") from error


def expires_at_s(certificate: bytes) -> int:
    """The last second in which a certificate in DER holds, since the epoch. ValueError if it is none."""
    try:
        _, last = _elements(_fields(certificate)[3].content)
    except (IndexError, StopIteration) as error:
        raise ValueError("not an X.509 certificate") from error
    digits = last.content.decode("ascii").removesuffix("Z")
    if last.tag == _SHORT_TIME:
        digits = ("19" if digits[:2] >= "50" else "20") + digits  # as RFC 5280 says
    parts = [int(digits[at : at + size]) for at, size in ((0, 4), (4, 2), (6, 2), (8, 2), (10, 2), (12, 2))]
    return timegm((*parts, 0, 0, 0))


def _fields(certificate: bytes) -> list[_Element]:
    """Serial number, algorithm, issuer, validity, subject, and more."""
    ((_, to_be_signed, _), *_) = _elements(next(_elements(certificate)).content)
    fields = list(_elements(to_be_signed))
    return fields[1:] if fields[0].tag == _VERSION else fields


def _part(attributes: bytes) -> str:
    return "+".join(_attribute(each.content) for each in _elements(attributes))


def _attribute(content: bytes) -> str:
    kind, value = _elements(content)
    number = _object_id(kind.content)
    name, encoding = _NAMES.get(number), _ENCODINGS.get(value.tag)
    if name is None or encoding is None:
        return f"{name or number}=#{value.whole.hex()}"
    return f"{name}={_escaped(value.content.decode(encoding, errors='replace'))}"


def _escaped(text: str) -> str:
    escaped = "".join(f"\\{each}" if each in _ESCAPED else each for each in text).replace("\0", "\\00")
    return _OUTER_BLANKS.sub(lambda blanks: "".join(f"\\{each}" for each in blanks[0]), escaped)


def _object_id(content: bytes) -> str:
    numbers: list[int] = [0]
    for byte in content:
        numbers[-1] = numbers[-1] << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(0)
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:-1])))


def _elements(data: bytes) -> Iterator[_Element]:
    at = 0
    while at < len(data):
        size, begin = data[at + 1], at + 2
        if size >= 0x80:
            begin += size - 0x80
            size = int.from_bytes(data[at + 2 : begin])
        end = begin + size
        if end > len(data):
            raise IndexError("an element goes beyond its end")
        yield _Element(data[at], data[begin:end], data[at:end])
        at = end
