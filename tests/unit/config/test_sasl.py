"""Settings of SASL: Kafka's logins, and settings of one listener."""

from __future__ import annotations

import re

import pytest

from minikafka.config import BrokerConfig, ConfigError
from minikafka.config.jaas import CLOCK_SKEW, Jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
USERS = f'{PLAIN} required username="admin" password="admin-secret" user_admin="admin-secret" user_alice="a\\"b\\\\c;";'
LISTENERS = "CLIENT://h:1,SASL_SSL://h:2,INSIDE://h:5,REPLICATION://h:3,CONTROLLER://h:4"


def config(**settings: object) -> BrokerConfig:
    named = {name.replace("__", "-").replace("_", "."): value for name, value in settings.items()}
    return BrokerConfig({"listeners": LISTENERS, "ssl.keystore.location": "/k"} | named)


def test_a_login_in_kafkas_notation() -> None:
    login = Jaas.parse(USERS)
    assert login.module == PLAIN
    assert login.users == {"admin": "admin-secret", "alice": 'a"b\\c;'}
    assert login.options["username"] == "admin"
    assert Jaas.parse("x.Y required;") == Jaas("x.Y", {})
    # As Apache Kafka 4.3.1 has read these.
    assert Jaas.parse("x.Y required username='carol' password='sec\"o\\'nd';").options == {
        "username": "carol",
        "password": "sec\"o'nd",
    }
    assert Jaas.parse(r"""x.Y required "user_a@b"="x\ty\101\q\"\n\\";""").users == {"a@b": 'x\tyAq"\n\\'}
    assert Jaas.parse('\n x.Y REQUIRED\n\ta=b\n\tc = "d e"\n ;\n').options == {"a": "b", "c": "d e"}
    commented = """// of "all" nodes; see\n x.Y /* ; */ required a="//1" /* b="2"\n */ c='/*3*/'; // its end;"""
    assert Jaas.parse(commented).options == {"a": "//1", "c": "/*3*/"}
    assert "secret" not in repr(login)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "a login module, required"),
        ("x.Y", "a login module, required"),
        ('x.Y required a="b"', "and a semicolon"),
        ('x.Y required secret="pass;', "the one after 0 others is not"),
        ('x.Y required a="1" secret;', "the one after 1 others is not"),
        ('x.Y required a="1" a="pass";', "a is given twice"),
        ('x.Y required a="1"b="2";', "the one after 1 others is not"),
    ],
)
def test_a_login_that_is_none_is_named_without_its_secrets(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)) as refused:
        Jaas.parse(text)

    assert "pass" not in str(refused.value)


def test_a_listener_has_settings_of_its_own() -> None:
    given = config(
        listener_security_protocol_map="INSIDE:SASL_PLAINTEXT",
        sasl_enabled_mechanisms="PLAIN",
        plain_sasl_jaas_config=USERS,
        **{
            "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{PLAIN} required user_bob="x";',
            "listener.name.sasl_ssl.connections.max.reauth.ms": 7,
            "listener.name.inside.sasl.enabled.mechanisms": "SCRAM-SHA-256",
        },
    )
    outside, inside = given.sasl_of("SASL_SSL"), given.sasl_of("INSIDE")
    assert outside.plain_sasl_jaas_config is not None
    assert inside.plain_sasl_jaas_config is not None
    assert (list(outside.plain_sasl_jaas_config.users), list(inside.plain_sasl_jaas_config.users)) == (
        ["bob"],
        ["admin", "alice"],
    )
    assert (outside.connections_max_reauth_ms, inside.connections_max_reauth_ms) == (7, 0)
    assert (outside.sasl_enabled_mechanisms, inside.sasl_enabled_mechanisms) == (("PLAIN",), ("SCRAM-SHA-256",))
    assert given.overridden({}, {}).sasl_of("SASL_SSL").connections_max_reauth_ms == 7
    assert [given.security_protocol(name) for name in given.listeners] == [
        *("PLAINTEXT", "SASL_SSL", "SASL_PLAINTEXT", "PLAINTEXT", "PLAINTEXT")
    ]
    assert "secret" not in repr(given)
    hidden = {entry.name: entry for entry in given.describe()}["plain.sasl.jaas.config"]
    assert (hidden.value, hidden.is_sensitive) == (None, True)


def test_a_login_of_scram_may_be_there_as_in_kafka() -> None:
    name = "scram-sha-256.sasl.jaas.config"
    given = config(
        **{
            name: f"{SCRAM} required;",
            f"listener.name.sasl_ssl.{name}": f'{SCRAM} required username="admin" password="admin-secret";',
        }
    )
    assert "admin" not in repr(given)
    assert {entry.name: entry for entry in given.describe()}[name].is_sensitive


def test_a_listener_is_found_by_the_name_that_the_environment_can_spell() -> None:
    assert (
        config(**{"listener.name.sasl.ssl.connections.max.reauth.ms": 7}).sasl_of("SASL_SSL").connections_max_reauth_ms
        == 7
    )


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"sasl_enabled_mechanisms": "GSSAPI"}, "sasl.enabled.mechanisms = 'GSSAPI': must be a list of PLAIN and"),
        (
            {"sasl_enabled_mechanisms": "PLAIN"},
            "plain.sasl.jaas.config is not set; PLAIN at listener SASL_SSL needs it",
        ),
        ({"sasl_enabled_mechanisms": "OAUTHBEARER"}, "sasl.oauthbearer.jwks.endpoint.url is not set; OAUTHBEARER at"),
        (
            {"sasl_enabled_mechanisms": "PLAIN", "plain_sasl_jaas_config": f'{PLAIN} required username="x";'},
            "plain.sasl.jaas.config names no user at listener SASL_SSL",
        ),
        ({"plain_sasl_jaas_config": f'{PLAIN} required user_a="";'}, "each user_NAME has a name and a password"),
        (
            {"oauthbearer_sasl_jaas_config": f'OAuthBearerLoginModule required {CLOCK_SKEW}="5s";'},
            f"{CLOCK_SKEW} is a number of milliseconds",
        ),
        ({"plain_sasl_jaas_config": "x.ScramLoginModule required;"}, f"must be {PLAIN} required"),
        (
            {"listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f'{SCRAM} required user_a="b";'},
            "`minikafka user add",
        ),
        (
            {"listener.name.sasl_ssl.gssapi.sasl.jaas.config": "x.Krb5LoginModule required;"},
            "gssapi.sasl.jaas.config' not found; for one listener there are plain.sasl.jaas.config, scram-sha-256.",
        ),
        (
            {"listener.name.sasl_ssl.sasl.jaas.config": USERS},
            "sasl.jaas.config' not found; for one listener there are plain.sasl.jaas.config, scram-sha-256.",
        ),
        ({"sasl_jaas_config": USERS}, "setting 'sasl.jaas.config' not found; did you mean plain.sasl.jaas.config?"),
        ({"listener.name.nowhere.sasl.enabled.mechanisms": "PLAIN"}, "there is no such listener among CLIENT"),
        ({"listener.name.sasl_ssl.log.dirs": "x"}, "not found; for one listener there are sasl.enabled.mechanisms"),
        ({"listener.name.sasl_ssl.connections.max.reauth.ms": "x"}, "must be a whole number"),
        ({"listener.name.sasl_ssl.ssl.client.auth": "x"}, "must be one of none, requested, required"),
        ({"listener.name.sasl_ssl.ssl.client.auth": "required"}, "listener SASL_SSL needs it for ssl.client.auth=req"),
        ({"listener.name.controller.ssl.client.auth": "none"}, "at listener CONTROLLER must be required"),
        ({"listener.name.sasl_ssl.ssl.keystore.location": "/k"}, "ssl.keystore.location' not found; for one"),
        ({"listener_security_protocol_map": "REPLICATION:SASL_SSL"}, "REPLICATION"),
    ],
)
def test_settings_that_do_not_fit_are_named(settings: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        config(**settings)
    assert said in str(refused.value)
    assert "admin-secret" not in str(refused.value)
