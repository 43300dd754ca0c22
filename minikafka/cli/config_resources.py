"""Whose settings ``minikafka config`` is about: ``topic events``, or ``--entity-type topics --entity-name events``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, NoReturn

import typer

TOPIC: Final = "topic"
BROKER: Final = "broker"
BROKER_LOGGER: Final = "broker-logger"
GROUP: Final = "group"
CLIENT: Final = "client"
USER: Final = "user"
KINDS: Final = (TOPIC, BROKER, BROKER_LOGGER, GROUP, CLIENT, USER)
OF_BROKERS: Final = (BROKER, BROKER_LOGGER)
"""Named by the number of a broker."""
QUOTA_KINDS: Final = (USER, CLIENT)
HAVE_DEFAULTS: Final = (BROKER, *QUOTA_KINDS)
DEFAULT_NAME: Final = "<default>"
"""How Kafka's tools print the name of what is set for all that have no setting of their own."""

_OTHER_WORDS: Final = {"client-id": CLIENT, "clientid": CLIENT, "consumer-group": GROUP}


class Entity(NamedTuple):
    """A part of a resource's name; ``name`` is None for every one of that kind, or for one that is not named."""

    kind: str
    name: str | None = None
    is_default: bool = False

    def __str__(self) -> str:
        return f"{self.kind} {DEFAULT_NAME if self.is_default else self.name or ''}".rstrip()


class Resource(NamedTuple):
    """Whose settings: one entity, or a user and a client id together."""

    entities: tuple[Entity, ...]

    def __str__(self) -> str:
        return ", ".join(map(str, self.entities))

    @property
    def kind(self) -> str:
        """The kind of the only entity; that of a quota's first one otherwise."""
        return self.entities[0].kind

    @property
    def name(self) -> str | None:
        """The name of the only entity."""
        return self.entities[0].name

    @property
    def is_named(self) -> bool:
        """One resource, and not all of a kind."""
        return all(entity.name is not None or entity.is_default for entity in self.entities)

    @property
    def is_quota(self) -> bool:
        """Quotas have requests of their own."""
        return self.kind in QUOTA_KINDS


class EntityOptions(NamedTuple):
    """Kafka's options: types and names in the order in which they were given, and names behind an option each."""

    types: Sequence[str] = ()
    names: Sequence[str] = ()
    named: Sequence[tuple[str, str | None]] = ()
    """``--topic events`` as (topic, events)."""
    default: bool = False


def read_words(words: Sequence[str], options: EntityOptions) -> tuple[Resource, list[str]]:
    """The resource that the words of a command line or Kafka's options name, and the words that remain: settings."""
    entities = _of_options(options)
    left = list(words)
    if not entities:
        if not left:
            _refuse("KIND", f"say whose settings: {', '.join(KINDS[:-1])} or {KINDS[-1]}")
        kind = _kind(left.pop(0))
        is_named = not options.default and left and "=" not in left[0]
        entities = [Entity(kind, left.pop(0) if is_named else None, options.default)]
    _check(entities)
    return Resource(tuple(entities)), left


def _of_options(options: EntityOptions) -> list[Entity]:
    entities = [Entity(kind, name) for kind, name in options.named if name is not None]
    if options.types and entities:
        _refuse("--entity-type", f"not together with --{entities[0].kind}")
    if len(options.names) > len(options.types):
        _refuse("--entity-name", "needs an --entity-type")
    names = [*options.names, *[None] * (len(options.types) - len(options.names))]
    for word, name in zip(options.types, names, strict=True):
        entities.append(Entity(_kind(word), name, name is None and options.default))
    return entities


def _kind(word: str) -> str:
    """The kind that a word names, also in the plural."""
    singular = word.removesuffix("s")
    kind = _OTHER_WORDS.get(singular, singular)
    if kind not in KINDS:
        _refuse("KIND", f"{word!r} has no settings here; it must be {', '.join(KINDS[:-1])} or {KINDS[-1]}")
    return kind


def _check(entities: Sequence[Entity]) -> None:
    kinds = [entity.kind for entity in entities]
    if len(kinds) > 1 and sorted(kinds) != sorted(QUOTA_KINDS):
        _refuse("KIND", f"{' and '.join(kinds)}: only a user and a client go together")
    for kind, name, is_default in entities:
        if is_default and kind not in HAVE_DEFAULTS:
            _refuse("--default", f"a {kind} has none; settings of brokers are the defaults of topics and groups")
        if kind in OF_BROKERS and name is not None and not (name.isascii() and name.isdigit()):
            _refuse("NAME", f"{name!r} is no node id; a broker is named by its number")


def _refuse(option: str, reason: str) -> NoReturn:
    raise typer.BadParameter(reason, param_hint=option)


def parse_added(words: Sequence[str], added: Sequence[str]) -> dict[str, str]:
    """``NAME=VALUE`` words, and the lists of Kafka's ``--add-config`` (``a=1,b=[2,3]``), by name."""
    found: dict[str, str] = {}
    for word in (*words, *(part for text in added for part in _parts(text))):
        name, separator, value = word.partition("=")
        name, value = name.strip(), value.strip()
        if not separator or not name:
            _refuse("NAME=VALUE", f"{word!r} is not NAME=VALUE")
        if name in found:
            _refuse("NAME=VALUE", f"{name} is given twice")
        found[name] = value
    return found


def _parts(text: str) -> list[str]:
    """What commas separate; those in brackets are the value's, and the brackets are not."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            parts.append("")
        elif letter not in "[]":
            parts[-1] += letter
    return [part for part in parts if part]
