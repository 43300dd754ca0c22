"""The same servers and security, by the names that other clients have for them."""

from __future__ import annotations

from typing import Any, Final, Literal

from minikafka.client.security import Security
from minikafka.config.stores import PKCS12
from minikafka.net.stores import trusted_pem

Kind = Literal["confluent", "aiokafka", "kafka-python", "java"]
KINDS: Final[tuple[Kind, ...]] = ("confluent", "aiokafka", "kafka-python", "java")


def client_config(kind: Kind, servers: str, security: Security) -> dict[str, Any]:
    """Options of a client's constructor; for Java its properties. Raises ValueError for another client."""
    if kind == "confluent":
        return {"bootstrap.servers": servers, **_of_librdkafka(security)}
    if kind == "java":
        return {"bootstrap.servers": servers, **java_properties(security)}
    if kind not in KINDS:
        raise ValueError(f"client {kind!r} is not known; {', '.join(KINDS)} are")
    return {"bootstrap_servers": servers.split(","), **_of_python(security)}


def java_properties(security: Security) -> dict[str, str]:
    """``client.properties`` without the servers. Java is told the format of each store: else it expects its own."""
    if security.security_protocol == "PLAINTEXT":
        return {}
    given = {
        "security.protocol": security.security_protocol,
        "ssl.truststore.location": security.ssl_truststore_location,
        "ssl.truststore.password": security.ssl_truststore_password,
        "ssl.truststore.certificates": security.ssl_truststore_certificates,
        "ssl.keystore.location": security.ssl_keystore_location,
        "ssl.keystore.password": security.ssl_keystore_password,
        "ssl.keystore.certificate.chain": security.ssl_keystore_certificate_chain,
        "ssl.keystore.key": security.ssl_keystore_key,
        "ssl.key.password": security.ssl_key_password,
    }
    for store, kind in (("ssl.truststore", security.ssl_truststore_type), ("ssl.keystore", security.ssl_keystore_type)):
        if any(value is not None for name, value in given.items() if name.startswith(store)):
            given[f"{store}.type"] = kind
    if (login := security.login) is not None:
        given |= {"sasl.mechanism": security.sasl_mechanism, "sasl.jaas.config": login.jaas(security.sasl_mechanism)}
    given["ssl.endpoint.identification.algorithm"] = security.ssl_endpoint_identification_algorithm
    return {name: value for name, value in given.items() if value is not None}


def _of_python(security: Security) -> dict[str, Any]:
    if security.security_protocol == "PLAINTEXT":
        return {}
    given: dict[str, Any] = {"security_protocol": security.security_protocol, "ssl_context": security.context()}
    if (login := security.login) is not None:
        given |= {
            "sasl_mechanism": security.sasl_mechanism,
            "sasl_plain_username": login.user,
            "sasl_plain_password": login.password,
        }
    return {name: value for name, value in given.items() if value is not None}


def _of_librdkafka(security: Security) -> dict[str, str]:
    if security.security_protocol == "PLAINTEXT":
        return {}
    given = {
        "security.protocol": security.security_protocol.lower(),
        **_trusted_by_librdkafka(security),
        **_key_of_librdkafka(security),
        "ssl.endpoint.identification.algorithm": security.ssl_endpoint_identification_algorithm or "none",
    }
    if (login := security.login) is not None:
        given |= {
            "sasl.mechanism": security.sasl_mechanism,
            "sasl.username": login.user,
            "sasl.password": login.password,
        }
    return {name: value for name, value in given.items() if value is not None}


def _trusted_by_librdkafka(security: Security) -> dict[str, str | None]:
    store = security.trust_store
    if store is not None and store.format == PKCS12:
        return {"ssl.ca.pem": trusted_pem(store)}  # it reads keys in PKCS12, but nobody to trust
    return {
        "ssl.ca.location": security.ssl_truststore_location,
        "ssl.ca.pem": security.ssl_truststore_certificates,
    }


def _key_of_librdkafka(security: Security) -> dict[str, str | None]:
    store = security.key_store
    if store is not None and store.format == PKCS12:
        return {"ssl.keystore.location": store.location, "ssl.keystore.password": store.password or store.key_password}
    return {
        "ssl.certificate.location": security.ssl_keystore_location,
        "ssl.key.location": security.ssl_keystore_location,
        "ssl.certificate.pem": security.ssl_keystore_certificate_chain,
        "ssl.key.pem": security.ssl_keystore_key,
        "ssl.key.password": security.ssl_key_password,
    }
