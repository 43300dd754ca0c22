"""Times and time spans in the words of a command line."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final, NoReturn

import typer

_ISO_SPAN: Final = re.compile(r"P(?=.)(?:(\d+)D)?(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d{1,3})?)S)?)?")
_SPAN: Final = re.compile(r"(?=.)(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d{1,3})?)s)?")
_SECONDS: Final = (86_400, 3600, 60, 1)
_LATEST_MS: Final = 2**63 - 1


def parse_datetime(word: str, option: str = "--to-datetime") -> int:
    """ISO 8601 in ms since 1970; in UTC if it has no offset, as Kafka's."""
    try:
        moment = datetime.fromisoformat(word)
    except ValueError:
        _refuse(option, f"{word!r} is no time as 2026-01-31T12:00:00.000 or 2026-01-31T12:00:00+01:00")
    at = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    if at.year < 1970:
        _refuse(option, f"{word!r} is before 1970")
    return round(at.timestamp() * 1000)


def parse_duration(word: str, option: str = "--by-duration") -> int:
    """``P1DT2H3M4.5S`` (ISO 8601) or ``1d2h3m4.5s``, in ms; years and months have no fixed length."""
    found = _ISO_SPAN.fullmatch(word) or _SPAN.fullmatch(word)
    if found is None:
        _refuse(option, f"{word!r} is no time span as PnDTnHnMnS: PT10M, PT1H30M, P7D; or 10m, 1h30m, 7d")
    return round(sum(float(part) * s for part, s in zip(found.groups(), _SECONDS, strict=True) if part) * 1000)


def parse_moment(word: str, option: str, now_ms: int) -> int:
    """Ms since 1970: as such, as ISO 8601, or as a time span before ``now_ms``."""
    if word.isascii() and word.isdigit():
        if int(word) > _LATEST_MS:
            _refuse(option, f"{word} ms are no time")
        return int(word)
    if _ISO_SPAN.fullmatch(word) or _SPAN.fullmatch(word):
        return max(0, now_ms - parse_duration(word, option))
    try:
        return parse_datetime(word, option)
    except typer.BadParameter:
        _refuse(option, f"{word!r} is no time as 2026-01-31T12:00:00, nor ms since 1970, nor a time span as 10m or 1h")


def _refuse(option: str, reason: str) -> NoReturn:
    raise typer.BadParameter(reason, param_hint=option)
