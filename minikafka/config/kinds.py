"""The types a setting may have.

A kind turns what a source gives (text, or a native TOML value) into the value, or raises ValueError with what is
allowed; and prints a value as DescribeConfigs and the reference page show it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from ipaddress import ip_address
from typing import Any, Final, Generic, TypeVar

from minikafka.model import Endpoint

T = TypeVar("T")

ALL_REPLICAS: Final = "*"
_REPLICAS: Final = re.compile(r"[0-9]{1,9}:[0-9]{1,9}(?:,[0-9]{1,9}:[0-9]{1,9})*")

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1


class ConfigType(IntEnum):
    """A setting's type as DescribeConfigs names it (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7
    PASSWORD = 9


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """How values of one type are read, checked and printed. ``allowed`` completes "must be ..."."""

    config_type: ConfigType
    allowed: str
    parse: Callable[[object], T]
    format: Callable[[T], str] = str


def integer(minimum: int = 0, maximum: int = INT_MAX) -> Kind[int]:
    """A whole number within bounds (int32 unless the maximum says otherwise)."""
    config_type = ConfigType.INT if maximum <= INT_MAX else ConfigType.LONG
    bounded_above = maximum not in (INT_MAX, LONG_MAX)
    allowed = f"a whole number from {minimum} to {maximum}" if bounded_above else f"a whole number of {minimum} or more"

    def parse(raw: object) -> int:
        if isinstance(raw, str) and re.fullmatch(r"[+-]?[0-9]{1,20}", raw.strip()):
            raw = int(raw)
        if not isinstance(raw, int) or isinstance(raw, bool) or not minimum <= raw <= maximum:
            raise ValueError(allowed)
        return raw

    return Kind(config_type, allowed, parse)


def long(minimum: int = 0, maximum: int = LONG_MAX) -> Kind[int]:
    """A whole number within bounds (int64)."""
    return integer(minimum, maximum)


def gzip_level() -> Kind[int]:
    """A level of gzip; -1 is its default."""
    allowed = "a whole number from 1 to 9, or -1"

    def parse(raw: object) -> int:
        try:
            level = integer(-1, 9).parse(raw)
        except ValueError:
            level = 0
        if not level:
            raise ValueError(allowed)
        return level

    return Kind(ConfigType.INT, allowed, parse)


def ratio() -> Kind[float]:
    """A number from 0 to 1."""
    allowed = "a number from 0 to 1"

    def parse(raw: object) -> float:
        if isinstance(raw, str):
            try:
                raw = float(raw)
            except ValueError:
                raise ValueError(allowed) from None
        if isinstance(raw, bool) or not isinstance(raw, int | float) or not 0 <= raw <= 1:
            raise ValueError(allowed)
        return float(raw)

    return Kind(ConfigType.DOUBLE, allowed, parse)


def boolean() -> Kind[bool]:
    """true or false, in any case."""
    values = {"true": True, "false": False}

    def parse(raw: object) -> bool:
        if isinstance(raw, str):
            raw = values.get(raw.strip().lower())
        if not isinstance(raw, bool):
            raise ValueError("true or false")
        return raw

    return Kind(ConfigType.BOOLEAN, "true or false", parse, lambda value: "true" if value else "false")


def only_false(why: str) -> Kind[bool]:
    """A setting of Kafka's for what is not there, and why."""

    def parse(raw: object) -> bool:
        if boolean().parse(raw):
            raise ValueError(f"false: {why}")
        return False

    return Kind(ConfigType.BOOLEAN, "false", parse, boolean().format)


def only(word: str, why: str) -> Kind[str]:
    """A setting of Kafka's that has one value here, and why."""

    def parse(raw: object) -> str:
        if not isinstance(raw, str) or raw.strip() != word:
            raise ValueError(f"{word}: {why}")
        return word

    return Kind(ConfigType.STRING, word, parse)


def text(pattern: str = r".+", allowed: str = "text") -> Kind[str]:
    """Text that matches a pattern in full."""

    def parse(raw: object) -> str:
        if isinstance(raw, int) and not isinstance(raw, bool):
            raw = str(raw)
        if not isinstance(raw, str) or not re.fullmatch(pattern, raw.strip()):
            raise ValueError(allowed)
        return raw.strip()

    return Kind(ConfigType.STRING, allowed, parse)


def secret() -> Kind[str]:
    """Text that is never printed."""
    return Kind(ConfigType.PASSWORD, "text", text().parse, lambda _value: "(hidden)")


def choice(*choices: str, any_case: bool = False) -> Kind[str]:
    """One of the given words; ``any_case``: they are in lower case, and may be given in upper case."""
    allowed = choices[0] if len(choices) == 1 else f"one of {', '.join(choices)}"

    def parse(raw: object) -> str:
        word = raw.strip() if isinstance(raw, str) else ""
        word = word.lower() if any_case else word
        if word not in choices:
            raise ValueError(allowed)
        return word

    return Kind(ConfigType.STRING, allowed, parse)


def words(*choices: str, may_be_empty: bool = False) -> Kind[tuple[str, ...]]:
    """A comma-separated list (or a TOML array), of the given words when there are any. Of those, each counts once;
    others may not be repeated."""
    allowed = f"a list of {' and '.join(choices)}" if choices else "a comma-separated list"
    if may_be_empty:
        allowed += ", or empty"

    def parse(raw: object) -> tuple[str, ...]:
        items = tuple(dict.fromkeys(_items(raw))) if choices else _items(raw)
        if not (items or may_be_empty) or len(set(items)) != len(items) or (choices and not set(items) <= set(choices)):
            raise ValueError(allowed)
        return items

    return Kind(ConfigType.LIST, allowed, parse, ",".join)


def endpoint() -> Kind[Endpoint]:
    """``host:port``. Port 0 asks for any free port."""
    allowed = "host:port"

    def parse(raw: object) -> Endpoint:
        if not isinstance(raw, str):
            raise ValueError(allowed)
        return parse_endpoint(raw.strip(), port_min=0)

    return Kind(ConfigType.STRING, allowed, parse, _address)


def endpoints() -> Kind[Mapping[str, Endpoint]]:
    """``NAME://host:port,...`` with each name at most once. Port 0 asks for any free port."""
    allowed = "a list of NAME://host:port, each name once, in A-Z, 0-9 and _"

    def parse(raw: object) -> Mapping[str, Endpoint]:
        found: dict[str, Endpoint] = {}
        for item in _items(raw):
            name, separator, address = item.partition("://")
            if not separator or not re.fullmatch(r"[A-Z0-9_]{1,64}", name) or name in found:
                raise ValueError(f"{allowed}; {item!r} is not")
            found[name] = parse_endpoint(address, port_min=0)
        return found

    return Kind(ConfigType.LIST, allowed, parse, lambda value: _joined(value, "://"))


def protocols(*choices: str) -> Kind[Mapping[str, str]]:
    """``NAME:PROTOCOL,...`` with each name once and one of the given protocols."""
    allowed = f"a list of NAME:PROTOCOL, each name once, with {' or '.join(choices)}"

    def parse(raw: object) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for item in _items(raw):
            name, _, protocol = item.partition(":")
            if protocol not in choices or name in found:
                raise ValueError(f"{allowed}; {item!r} is not")
            found[name] = protocol
        return found

    return Kind(ConfigType.STRING, allowed, parse, lambda value: ",".join(map(":".join, value.items())))


def counts_by_address() -> Kind[Mapping[str, int]]:
    """``ADDRESS:COUNT,...`` with each IP address once."""
    allowed = "a list of ADDRESS:COUNT"

    def parse(raw: object) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for item in _items(raw):
            host, _, count = item.rpartition(":")
            try:
                address = str(ip_address(host.strip("[]")))
            except ValueError:
                raise ValueError(f"{allowed} with IP addresses; {item!r} is not") from None
            if not re.fullmatch(r"[0-9]{1,9}", count) or address in found:
                raise ValueError(f"{allowed}, each address once; {item!r} is not")
            found[address] = int(count)
        return found

    def format_(value: Mapping[str, int]) -> str:
        return ",".join(f"[{host}]:{count}" if ":" in host else f"{host}:{count}" for host, count in value.items())

    return Kind(ConfigType.STRING, allowed, parse, format_)


def principals() -> Kind[tuple[str, ...]]:
    """``User:name;User:other``, separated by semicolons: the names of certificates have commas."""
    allowed = "a list of User:name, separated by semicolons"

    def parse(raw: object) -> tuple[str, ...]:
        if isinstance(raw, str):
            raw = raw.split(";")
        if not isinstance(raw, list | tuple) or not all(isinstance(item, str) for item in raw):
            raise ValueError(allowed)
        items = tuple(dict.fromkeys(stripped for item in raw if (stripped := item.strip())))
        if not all(re.fullmatch(r"User:.+", item) for item in items):
            raise ValueError(allowed)
        return items

    return Kind(ConfigType.STRING, allowed, parse, ";".join)


def voters() -> Kind[Mapping[int, Endpoint]]:
    """``id@host:port,...`` with each id once."""
    allowed = "a list of id@host:port"

    def parse(raw: object) -> Mapping[int, Endpoint]:
        found: dict[int, Endpoint] = {}
        for item in _items(raw):
            node_id, separator, address = item.partition("@")
            if not separator or not re.fullmatch(r"[0-9]{1,9}", node_id) or int(node_id) in found:
                raise ValueError(f"{allowed}, each id once; {item!r} is not")
            found[int(node_id)] = parse_endpoint(address, port_min=1)
        return found

    return Kind(ConfigType.LIST, allowed, parse, lambda value: _joined(value, "@"))


class ReplicaList:
    """Some replicas of a topic, as ``partition:broker``; or all of them (KIP-73).

    It may have thousands, is read with all settings of its topic, and asked for few: so the text is taken apart when
    it is asked.
    """

    __slots__ = ("_listed", "_text")

    def __init__(self, text: str = "") -> None:
        self._text = text
        self._listed: frozenset[tuple[int, int]] | None = None

    def has(self, partition: int, broker_id: int) -> bool:
        """True when the replica is one of them."""
        if self._text == ALL_REPLICAS:
            return True
        if self._listed is None:
            pairs = (item.split(":") for item in self)
            self._listed = frozenset((int(partition), int(broker_id)) for partition, broker_id in pairs)
        return (partition, broker_id) in self._listed

    def __iter__(self) -> Iterator[str]:
        """As they are written, one by one."""
        return iter(self._text.split(",") if self._text else ())

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReplicaList) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __str__(self) -> str:
        return self._text


def replica_list() -> Kind[ReplicaList]:
    """``partition:broker,...``, or ``*``."""
    allowed = "a list of partition:broker, or *"

    def parse(raw: object) -> ReplicaList:
        text = raw if isinstance(raw, str) and _REPLICAS.fullmatch(raw) else ",".join(_items(raw))
        if text and text != ALL_REPLICAS and not _REPLICAS.fullmatch(text):
            raise ValueError(allowed)
        return ReplicaList(text)

    return Kind(ConfigType.LIST, allowed, parse)


def nullable(kind: Kind[T]) -> Kind[T | None]:
    """The same kind, or nothing: an empty text is no value."""

    def parse(raw: object) -> T | None:
        return None if raw is None or raw == "" else kind.parse(raw)

    def format_(value: T | None) -> str:
        return "" if value is None else kind.format(value)

    return Kind(kind.config_type, kind.allowed, parse, format_)


def parse_endpoint(address: str, *, port_min: int) -> Endpoint:
    """``host:port`` or ``[v6]:port``; an empty host means every address of the machine."""
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.%]+\]|[^\[\]:/@\s]*):([0-9]{1,5})", address)
    if match is None or not port_min <= int(match[2]) <= 65535:
        raise ValueError(f"host:port with a port from {port_min} to 65535; {address!r} is not")
    try:
        match[1].encode("idna")
    except UnicodeError:
        raise ValueError(f"a host name with parts of 1 to 63 characters, not {match[1]!r}") from None
    return Endpoint(match[1].strip("[]") or "0.0.0.0", int(match[2]))  # noqa: S104 - as the user said


def _joined(value: Mapping[Any, Endpoint], separator: str) -> str:
    return ",".join(f"{name}{separator}{_address(endpoint)}" for name, endpoint in value.items())


def _address(endpoint: Endpoint) -> str:
    return f"[{endpoint.host}]:{endpoint.port}" if ":" in endpoint.host else str(endpoint)


def _items(raw: object) -> tuple[str, ...]:
    if isinstance(raw, str):
        raw = raw.split(",")
    if not isinstance(raw, list | tuple) or not all(isinstance(item, str) for item in raw):
        raise ValueError("a comma-separated list")
    return tuple(stripped for item in raw if (stripped := item.strip()))
