"""Whose settings a command line means."""

from __future__ import annotations

import pytest
import typer

from minikafka.cli.config_resources import Entity, EntityOptions, Resource, parse_added, read_words

NO_OPTIONS = EntityOptions()


@pytest.mark.parametrize(
    ("words", "entity", "left"),
    [
        ("topic events", Entity("topic", "events"), []),
        ("topics events retention.ms=1", Entity("topic", "events"), ["retention.ms=1"]),
        ("topic events retention.ms", Entity("topic", "events"), ["retention.ms"]),
        ("topic my.topic", Entity("topic", "my.topic"), []),
        ("topic", Entity("topic"), []),
        ("topics my.topic", Entity("topic", "my.topic"), []),
        ("brokers 2", Entity("broker", "2"), []),
        ("broker-loggers 2 root=INFO", Entity("broker-logger", "2"), ["root=INFO"]),
        ("group g", Entity("group", "g"), []),
        ("client-id loader", Entity("client", "loader"), []),
        ("clients loader producer_byte_rate=1", Entity("client", "loader"), ["producer_byte_rate=1"]),
        ("user alice", Entity("user", "alice"), []),
        ("topic retention.ms=1", Entity("topic"), ["retention.ms=1"]),
    ],
)
def test_words_name_a_resource_and_its_settings(words: str, entity: Entity, left: list[str]) -> None:
    assert read_words(words.split(), NO_OPTIONS) == (Resource((entity,)), left)


def test_the_default_has_no_name() -> None:
    resource, left = read_words(["broker", "a.b"], EntityOptions(default=True))
    assert (str(resource), resource.is_named, left) == ("broker <default>", True, ["a.b"])


@pytest.mark.parametrize(
    ("options", "entities"),
    [
        (EntityOptions(["topics"], ["events"]), [Entity("topic", "events")]),
        (EntityOptions(["brokers"], default=True), [Entity("broker", None, True)]),
        (EntityOptions(named=[("topic", "events"), ("group", None)]), [Entity("topic", "events")]),
        (EntityOptions(["users", "clients"], ["alice", "c"]), [Entity("user", "alice"), Entity("client", "c")]),
        (EntityOptions(["clients", "users"], ["c"], default=True), [Entity("client", "c"), Entity("user", None, True)]),
    ],
)
def test_kafkas_options_name_a_resource(options: EntityOptions, entities: list[Entity]) -> None:
    assert read_words(["a=1"], options) == (Resource(tuple(entities)), ["a=1"])


@pytest.mark.parametrize(
    ("words", "options", "message"),
    [
        ("", NO_OPTIONS, "say whose settings: topic, broker, broker-logger, group, client or user"),
        ("events", NO_OPTIONS, "'events' has no settings here"),
        ("broker one", NO_OPTIONS, "'one' is no node id"),
        ("broker-logger one", NO_OPTIONS, "'one' is no node id"),
        ("topic", EntityOptions(default=True), "a topic has none"),
        ("", EntityOptions(names=["x"]), "needs an --entity-type"),
        ("", EntityOptions(["topics", "brokers"], ["t", "1"]), "only a user and a client go together"),
        ("", EntityOptions(["topics"], ["t"], [("group", "g")]), "not together with --group"),
    ],
)
def test_what_names_none_is_refused(words: str, options: EntityOptions, message: str) -> None:
    with pytest.raises(typer.BadParameter, match=message):
        read_words(words.split(), options)


def test_values_may_have_commas() -> None:
    """As words of their own as they are; in Kafka's list in brackets."""
    assert parse_added(["cleanup.policy=compact,delete", "a="], []) == {"cleanup.policy": "compact,delete", "a": ""}
    assert parse_added([], ["a=1,b=[2,3]", "c=x=y"]) == {"a": "1", "b": "2,3", "c": "x=y"}


@pytest.mark.parametrize(("words", "message"), [(["a"], "'a' is not NAME=VALUE"), (["a=1", "a=2"], "a is given twice")])
def test_what_sets_nothing_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(typer.BadParameter, match=message):
        parse_added(words, [])
