from __future__ import annotations

import pytest

from minikafka.client.other_clients import client_config, java_properties
from minikafka.client.properties import security_of
from minikafka.client.security import PLAIN, Security

SERVERS = "h:1,h:2"
FILES = Security(
    security_protocol="SSL",
    ssl_truststore_location="ca.pem",
    ssl_keystore_location="own.pem",
    ssl_key_password="secret",
)


def test_each_client_is_told_in_its_words() -> None:
    assert client_config("confluent", SERVERS, FILES) == {
        "bootstrap.servers": SERVERS,
        "security.protocol": "ssl",
        "ssl.ca.location": "ca.pem",
        "ssl.certificate.location": "own.pem",
        "ssl.key.location": "own.pem",
        "ssl.key.password": "secret",
        "ssl.endpoint.identification.algorithm": "https",
    }
    assert client_config("java", SERVERS, FILES) == {
        "bootstrap.servers": SERVERS,
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "ca.pem",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": "own.pem",
        "ssl.key.password": "secret",
        "ssl.endpoint.identification.algorithm": "https",
    }


def test_files_in_pkcs12_are_told_as_each_client_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka reads keys in that format, but no trusted certificates: it gets their text."""
    monkeypatch.setattr("minikafka.client.other_clients.trusted_pem", lambda store: f"of {store.location}")
    files = Security(
        security_protocol="SSL",
        ssl_truststore_type="PKCS12",
        ssl_truststore_location="ca.p12",
        ssl_truststore_password="one",
        ssl_keystore_type="PKCS12",
        ssl_keystore_location="own.p12",
        ssl_keystore_password="two",
    )
    assert client_config("confluent", SERVERS, files) == {
        "bootstrap.servers": SERVERS,
        "security.protocol": "ssl",
        "ssl.ca.pem": "of ca.p12",
        "ssl.keystore.location": "own.p12",
        "ssl.keystore.password": "two",
        "ssl.endpoint.identification.algorithm": "https",
    }
    assert java_properties(files) == {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": "ca.p12",
        "ssl.truststore.password": "one",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": "own.p12",
        "ssl.keystore.password": "two",
        "ssl.endpoint.identification.algorithm": "https",
    }


def test_a_plain_connection_needs_no_words() -> None:
    assert client_config("confluent", SERVERS, PLAIN) == client_config("java", SERVERS, PLAIN)
    assert client_config("aiokafka", SERVERS, PLAIN) == {"bootstrap_servers": ["h:1", "h:2"]}


def test_a_client_in_python_gets_a_context() -> None:
    given = client_config("kafka-python", SERVERS, Security(security_protocol="SSL"))
    assert given["security_protocol"] == "SSL"
    assert given["ssl_context"].check_hostname


def test_what_is_told_to_java_says_the_same_to_us() -> None:
    trusting = Security(security_protocol="SSL", ssl_endpoint_identification_algorithm="")
    assert security_of(java_properties(trusting)) == trusting


def test_another_client_is_not_known() -> None:
    with pytest.raises(ValueError, match="client 'kcat' is not known; confluent, aiokafka, kafka-python, java are"):
        client_config("kcat", SERVERS, PLAIN)  # type: ignore[arg-type]


LOGIN = Security(
    security_protocol="SASL_SSL",
    ssl_truststore_location="ca.pem",
    sasl_mechanism="SCRAM-SHA-256",
    sasl_username="alice",
    sasl_password='a "secret" \\',
)


def test_each_client_is_told_who_logs_in() -> None:
    given = client_config("confluent", SERVERS, LOGIN)
    assert (given["security.protocol"], given["sasl.mechanism"]) == ("sasl_ssl", "SCRAM-SHA-256")
    assert (given["sasl.username"], given["sasl.password"]) == LOGIN.login
    java = java_properties(LOGIN)
    assert java["sasl.jaas.config"] == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="alice" password="a \\"secret\\" \\\\";'
    )
    plain = Security(
        security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_jaas_config=java["sasl.jaas.config"]
    )
    assert plain.login == LOGIN.login
    assert client_config("aiokafka", SERVERS, plain) == {
        "bootstrap_servers": ["h:1", "h:2"],
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "alice",
        "sasl_plain_password": 'a "secret" \\',
    }
    assert "secret" not in f"{LOGIN!r} {LOGIN.login!r}"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sasl.mechanism": "GSSAPI"}, "sasl.mechanism is 'GSSAPI'; it must be one of PLAIN, SCRAM-SHA-256"),
        ({"sasl.mechanism": "PLAIN"}, "sasl.username and sasl.password, or sasl.jaas.config, are not set; PLAIN needs"),
        ({"sasl.mechanism": "PLAIN", "sasl.username": "a"}, "are not set"),
        ({"sasl.jaas.config": "x.Y required"}, "sasl.jaas.config must have a login module"),
        ({"sasl.mechanism": "OAUTHBEARER"}, "sasl.oauthbearer.token.endpoint.url is not set, or sasl.jaas.config with"),
        ({"sasl.login.class": "x"}, "sasl.login.class cannot be set here"),
    ],
)
def test_a_login_that_lacks_something_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        security_of({"security.protocol": "SASL_PLAINTEXT"} | given)
