"""Where settings come from: text of files and the environment, turned into mappings of Kafka's names."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Final

from minikafka.config.setting import ConfigError

ENVIRONMENT_PREFIX: Final = "MINIKAFKA_"
NOT_SETTINGS: Final = frozenset({"MINIKAFKA_DIR", "MINIKAFKA_BOOTSTRAP_SERVERS", "MINIKAFKA_COMMAND_CONFIG"})
"""Variables that the command line reads for itself."""

_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_toml(text: str) -> dict[str, object]:
    """Settings of a TOML file; dotted keys and tables alike (``[log]`` with ``dirs = [...]``)."""
    try:
        return flatten(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([f"not TOML: {error}"]) from None


def flatten(settings: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Nested tables as dotted names; ConfigError when a name is spelled twice."""
    flat: dict[str, object] = {}
    for key, value in settings.items():
        name = prefix + key
        found = flatten(value, name + ".") if isinstance(value, Mapping) else {name: value}
        twice = flat.keys() & found.keys()
        if twice:
            raise ConfigError([f"{name} is given twice" for name in sorted(twice)])
        flat |= found
    return flat


def environment_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """``MINIKAFKA_LOG_DIRS=/data`` as ``log.dirs``; other variables are left out."""
    return {
        name.removeprefix(ENVIRONMENT_PREFIX).lower().replace("_", "."): value
        for name, value in environment.items()
        if name.startswith(ENVIRONMENT_PREFIX) and name not in NOT_SETTINGS
    }


def parse_properties(text: str) -> dict[str, str]:
    """Settings of a Java ``.properties`` file: ``name=value`` or ``name: value`` lines, ``#`` and ``!`` comments,
    a backslash at the end of a line to continue it, escapes. ConfigError when a name is given twice."""
    found: dict[str, str] = {}
    problems: list[str] = []
    for number, line in _logical_lines(text):
        name, value = _split(line)
        if not name:
            problems.append(f"line {number} has no name before its value")  # which may be a secret
        elif name in found:
            problems.append(f"line {number}: {name} is given twice")
        found[name] = value
    if problems:
        raise ConfigError(problems)
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """(line number, text without its leading blanks), comments and blank lines left out, continuations joined."""
    pending, first = "", 0
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.lstrip()
        if not pending and (not line or line[0] in "#!"):
            continue
        first = first if pending else number
        if (len(line) - len(line.rstrip("\\"))) % 2:
            pending += line[:-1]
            continue
        yield first, pending + line
        pending = ""
    if pending:
        yield first, pending


def _split(line: str) -> tuple[str, str]:
    """Name and value at the first unescaped ``=``, ``:`` or blank."""
    match = re.match(r"((?:\\.|[^=:\s\\])*)\s*[=:]?\s*(.*)", line, re.DOTALL)
    assert match is not None
    return _unescape(match[1]), _unescape(match[2].rstrip())


def _unescape(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPES.get(code, code)

    unescaped = re.sub(r"\\(u[0-9A-Fa-f]{4}|.)", character, text)
    return unescaped.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")  # joins Java's halves
