"""Kafka's way to write down a login: ``org.apache...PlainLoginModule required username="admin" user_alice="secret";``

Names and values may be in quotes of both kinds, with escapes, and comments between them, as Java's ``StreamTokenizer``
reads them. Values are secrets: nothing prints them.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from minikafka.config.kinds import ConfigType, Kind

PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
MODULES: Final = (PLAIN_MODULE, SCRAM_MODULE, OAUTHBEARER_MODULE)
OF_BROKERS: Final = frozenset({"username", "password"})
"""Options by which Kafka's brokers log in to each other: nodes prove a secret instead."""
CLOCK_SKEW: Final = "unsecuredValidatorAllowableClockSkewMs"
"""Of a login by tokens that nobody signed."""
_USER: Final = "user_"
_LOGIN: Final = re.compile(
    r"\s*([\w.$]+)\s+(required|requisite|sufficient|optional)\b(.*);\s*", re.DOTALL | re.IGNORECASE
)
_QUOTED: Final = r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
_COMMENTED: Final = re.compile(rf"({_QUOTED})|//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_OPTION: Final = re.compile(rf"""\s+({_QUOTED}|[^\s="']+)\s*=\s*({_QUOTED}|[^\s";'][^\s";]*)""", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class Jaas(NamedTuple):
    """A login module and its options."""

    module: str
    options: dict[str, str]

    @classmethod
    def parse(cls, text: str) -> Jaas:
        """ValueError says what is expected, without a secret."""
        login = _LOGIN.fullmatch(_COMMENTED.sub(lambda found: found[1] or " ", text))
        if login is None:
            raise ValueError('a login module, required, its options as name="value", and a semicolon')
        options: dict[str, str] = {}
        rest = login[3].rstrip()
        while rest:
            option = _OPTION.match(rest)
            if option is None:
                raise ValueError(f'options as name="value"; the one after {len(options)} others is not')
            name, value = map(_unquoted, option.groups())
            if name in options:
                raise ValueError(f"options that are given once; {name} is given twice")
            options[name] = value
            rest = rest[option.end() :]
        return cls(login[1], options)

    @property
    def users(self) -> dict[str, str]:
        """Passwords of ``user_NAME="password"``, by name."""
        return {name.removeprefix(_USER): value for name, value in self.options.items() if name.startswith(_USER)}

    def __repr__(self) -> str:
        return f"Jaas({self.module})"


def _unquoted(text: str) -> str:
    def character(escape: re.Match[str]) -> str:
        code = escape[1]
        return chr(int(code, 8)) if code[0] in "01234567" else _ESCAPES.get(code, code)

    return _ESCAPE.sub(character, text[1:-1]) if text[0] in "\"'" else text


def jaas(module: str) -> Kind[Jaas]:
    """A login of that module."""
    short = module.rpartition(".")[2]
    allowed = f'{module} required name="value" ...;'

    def parse(raw: object) -> Jaas:
        if isinstance(raw, Jaas):
            return raw
        try:
            login = Jaas.parse(raw if isinstance(raw, str) else "")
        except ValueError as error:
            raise ValueError(f"{allowed} ({error})") from None
        if login.module.rpartition(".")[2] != short:
            raise ValueError(allowed)
        if any(not user or not password for user, password in login.users.items()):
            raise ValueError(f"{allowed} (each user_NAME has a name and a password)")
        return login

    return Kind(ConfigType.PASSWORD, allowed, parse, lambda _value: "(hidden)")


def unsecured_jaas() -> Kind[Jaas]:
    """A login by tokens that nobody signed."""
    login = jaas(OAUTHBEARER_MODULE)

    def parse(raw: object) -> Jaas:
        parsed = login.parse(raw)
        if re.fullmatch("[0-9]{0,15}", parsed.options.get(CLOCK_SKEW, "")) is None:
            raise ValueError(f"{login.allowed} ({CLOCK_SKEW} is a number of milliseconds)")
        return parsed

    return Kind(ConfigType.PASSWORD, login.allowed, parse, login.format)


def scram_jaas() -> Kind[Jaas]:
    """A login that says nothing of users."""
    login = jaas(SCRAM_MODULE)
    allowed = f"{SCRAM_MODULE} required;"

    def parse(raw: object) -> Jaas:
        parsed = login.parse(raw)
        if parsed.options.keys() - OF_BROKERS:
            raise ValueError(f"{allowed} (`minikafka user add` adds users; they are metadata of the cluster)")
        return parsed

    return Kind(ConfigType.PASSWORD, allowed, parse, login.format)
