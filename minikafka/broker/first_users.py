"""The first users of a new cluster, from a file: somebody must be let in who can add the others.

One a line, as ``kafka-storage.sh --add-scram`` has them: ``SCRAM-SHA-512=[name=admin,password=secret]``, with
``iterations=8192`` if not so many as there. Empty lines, and those that begin with ``#``, are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from minikafka.config import BrokerConfig, ConfigError
from minikafka.metadata.controller.scram import NAME_MAX
from minikafka.metadata.records import UserScramCredentialRecord
from minikafka.sasl.scram import (
    BY_NAME,
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    ScramMechanism,
    credential_of,
    salted_password,
)

SETTING: Final = "initial.scram.credentials.file"
USERS_MAX: Final = 20
"""Each takes some milliseconds of the loop, once in the life of a cluster."""
_LINE: Final = re.compile(r"([A-Z0-9-]+)=\[(.*)\]")
_OPTION: Final = re.compile(r'\s*([a-z]+)=\s*("[^"]*"\s*|[^",]*)(?:,|$)')
_OPTIONS: Final = ("name", "password", "iterations")


class FirstUser(NamedTuple):
    """Who may log in to a new cluster, and how."""

    mechanism: ScramMechanism
    name: str
    password: str
    iterations: int = MIN_ITERATIONS

    def __repr__(self) -> str:
        return f"FirstUser({self.mechanism.mechanism_name}, {self.name!r})"


def first_users_of(config: BrokerConfig) -> tuple[FirstUser, ...]:
    """Raises ConfigError, which names the file and the line, and never what is in it."""
    path = config.initial_scram_credentials_file
    if path is None:
        return ()
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError([f"{SETTING} {path}: {error.strerror}"]) from None
    except UnicodeDecodeError:
        raise ConfigError([f"{SETTING} {path}: it is not UTF-8 text"]) from None
    users: dict[tuple[ScramMechanism, str], FirstUser] = {}
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line.startswith("#"):
            continue
        try:
            user = _user(line)
            if (user.mechanism, user.name) in users:
                raise ValueError("the user has a password by that mechanism already")
            if len(users) == USERS_MAX:
                raise ValueError(f"a new cluster takes {USERS_MAX}; `minikafka user add` the others")
        except ValueError as error:
            raise ConfigError([f"{SETTING} {path}, line {number}: {error}"]) from None
        users[user.mechanism, user.name] = user
    return tuple(users.values())


def first_records(users: Iterable[FirstUser], nonce: Callable[[], bytes]) -> Iterator[UserScramCredentialRecord]:
    """What a new cluster keeps of them. ``nonce`` gives fresh random bytes: a salt for each."""
    for mechanism, name, password, iterations in users:
        salt = nonce()
        salted = salted_password(mechanism, password, salt, iterations)
        yield UserScramCredentialRecord(name, mechanism, *credential_of(mechanism, salted, salt, iterations))


def _user(line: str) -> FirstUser:
    found = _LINE.fullmatch(line)
    if found is None:
        raise ValueError("it must be MECHANISM=[name=NAME,password=PASSWORD]")
    mechanism = BY_NAME.get(found[1])
    if mechanism is None:
        raise ValueError(f"the mechanism must be {' or '.join(BY_NAME)}")
    given = dict(_options(found[2]))
    name, password, iterations = given.get("name", ""), given.get("password", ""), given.get("iterations")
    if not 0 < len(name) <= NAME_MAX:
        raise ValueError(f"name must have 1 to {NAME_MAX} characters")
    if not password:
        raise ValueError("password is missing")
    if iterations is None:
        return FirstUser(mechanism, name, password)
    if not (iterations.isascii() and iterations.isdigit() and MIN_ITERATIONS <= int(iterations) <= MAX_ITERATIONS):
        raise ValueError(f"iterations must be {MIN_ITERATIONS} to {MAX_ITERATIONS}")
    return FirstUser(mechanism, name, password, int(iterations))


def _options(text: str) -> Iterator[tuple[str, str]]:
    known = set(_OPTIONS)
    position = 0
    while position < len(text):
        found = _OPTION.match(text, position)
        if found is None or found[1] not in known:
            raise ValueError(f"its options are {', '.join(_OPTIONS)}, each once; a value with a comma is in quotes")
        known.remove(found[1])
        yield found[1], found[2].strip().strip('"')
        position = found.end()
