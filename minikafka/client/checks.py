"""Checks of arguments at the call, so that a wrong one does not fail later in a task (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from minikafka.records.record import Header

TIMESTAMP_MAX: Final = (1 << 63) - 1


def check_whole_number(name: str, value: object, at_least: int) -> None:
    """Raises TypeError or ValueError unless a setting is a whole number that large."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be a whole number, not {value!r}")
    if value < at_least:
        raise ValueError(f"{name} is {value}; it must be at least {at_least}")


def check_text(name: str, value: object) -> None:
    """Raises TypeError unless it is a str."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}")


def check_bytes(name: str, value: object) -> None:
    """Raises TypeError unless it can be the key or value of a record."""
    if value is not None and not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(f"the {name} of a record must be bytes or None, not {type(value).__name__}; encode it first")


def check_partition(partition: object) -> None:
    """Raises TypeError unless it can be the number of a partition."""
    if not isinstance(partition, int) or isinstance(partition, bool):
        raise TypeError(f"a partition must be a whole number, not {partition!r}")


def check_timestamp(timestamp_ms: object) -> None:
    """Raises TypeError or ValueError unless a record may be stamped with it."""
    if not isinstance(timestamp_ms, int) or isinstance(timestamp_ms, bool):
        raise TypeError(f"timestamp_ms must be a whole number of milliseconds, not {timestamp_ms!r}")
    if not 0 <= timestamp_ms <= TIMESTAMP_MAX:
        raise ValueError(f"timestamp_ms is {timestamp_ms}; it must be from 0 to {TIMESTAMP_MAX}")


def check_headers(headers: Iterable[Header]) -> tuple[Header, ...]:
    """The headers of a record. Raises TypeError for anything but pairs of str and bytes or None."""
    kept = tuple(headers)
    for header in kept:
        match header:
            case (str(), None | bytes() | bytearray() | memoryview()):
                pass
            case _:
                raise TypeError(f"a header must be a pair of a str and bytes or None, not {header!r}")
    return kept
