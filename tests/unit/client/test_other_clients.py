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
