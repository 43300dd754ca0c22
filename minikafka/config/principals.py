"""Names of clients that have certificates: rules that make them of distinguished names, in Kafka's notation (KIP-371).

``RULE:^CN=(.*?),OU=.*$/$1/L,DEFAULT``: the first rule whose pattern matches the whole name gives the user; ``L`` and
``U`` put it in lower and upper case; ``DEFAULT`` leaves the name as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from minikafka.config.kinds import ConfigType, Kind

_PART: Final = r"((?:\\.|[^\\/])*)"
_RULE: Final = re.compile(rf"\s*(?:(DEFAULT)|RULE:{_PART}/{_PART}/([LU]?))\s*(?:,|$)")
_REFERENCE: Final = re.compile(r"\$(\d+)")


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str]
    replacement: str
    case: str = ""

    def user_of(self, distinguished_name: str) -> str | None:
        found = self.pattern.fullmatch(distinguished_name)
        if found is None:
            return None

        def referred(reference: re.Match[str]) -> str:
            """As in Java: the longest number that there is a group of; the rest is text."""
            digits = reference[1]
            for end in range(len(digits), 0, -1):
                if 0 <= (number := int(digits[:end])) <= self.pattern.groups:
                    return (found[number] or "") + digits[end:]
            return reference[0]

        user = _REFERENCE.sub(referred, self.replacement)
        return user.lower() if self.case == "L" else user.upper() if self.case == "U" else user


class PrincipalRules:
    """ValueError for what is none."""

    __slots__ = ("_rules", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._rules: list[_Rule] = []
        at = 0
        while at < len(text):
            found = _RULE.match(text, at)
            if found is None:
                raise ValueError(f"DEFAULT, or RULE:PATTERN/REPLACEMENT/ with L or U behind it; {text[at:]!r} is not")
            is_default, pattern, replacement, case = found.groups()
            try:
                rule = (
                    _Rule(re.compile(".*", re.DOTALL), "$0")
                    if is_default
                    else _Rule(re.compile(pattern), replacement, case)
                )
            except (re.error, OverflowError, RecursionError) as error:
                raise ValueError(f"rules with regular expressions; {pattern!r} is none: {error}") from None
            self._rules.append(rule)
            at = found.end()

    def user_of(self, distinguished_name: str) -> str | None:
        """The user; None: no rule is for such a name."""
        users = (rule.user_of(distinguished_name) for rule in self._rules)
        return next((user for user in users if user is not None), None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PrincipalRules) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        return self._text


def principal_rules() -> Kind[PrincipalRules]:
    """A list of rules."""
    allowed = "a list of DEFAULT and RULE:PATTERN/REPLACEMENT/[LU]"

    def parse(raw: object) -> PrincipalRules:
        if not isinstance(raw, str) or not raw.strip():
            raise ValueError(allowed)
        return PrincipalRules(raw.strip())

    return Kind(ConfigType.STRING, allowed, parse)
