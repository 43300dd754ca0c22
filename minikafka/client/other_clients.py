"""The same servers and security, by the names that other clients have for them (pure)."""

from __future__ import annotations

from typing import Any, Final, Literal

from minikafka.client.security import Security

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
    context = security.context()
    secured = {} if context is None else {"security_protocol": security.security_protocol, "ssl_context": context}
    return {"bootstrap_servers": servers.split(","), **secured}


def java_properties(security: Security) -> dict[str, str]:
    """``client.properties`` without the servers. Java is told of each store that it is PEM: else it expects its own."""
    if security.security_protocol == "PLAINTEXT":
        return {}
    given = {
        "security.protocol": security.security_protocol,
        "ssl.truststore.location": security.ssl_truststore_location,
        "ssl.truststore.certificates": security.ssl_truststore_certificates,
        "ssl.keystore.location": security.ssl_keystore_location,
        "ssl.keystore.certificate.chain": security.ssl_keystore_certificate_chain,
        "ssl.keystore.key": security.ssl_keystore_key,
        "ssl.key.password": security.ssl_key_password,
    }
    for store in ("ssl.truststore", "ssl.keystore"):
        if any(value is not None for name, value in given.items() if name.startswith(store)):
            given[f"{store}.type"] = "PEM"
    given["ssl.endpoint.identification.algorithm"] = security.ssl_endpoint_identification_algorithm
    return {name: value for name, value in given.items() if value is not None}


def _of_librdkafka(security: Security) -> dict[str, str]:
    if security.security_protocol == "PLAINTEXT":
        return {}
    given = {
        "security.protocol": security.security_protocol.lower(),
        "ssl.ca.location": security.ssl_truststore_location,
        "ssl.ca.pem": security.ssl_truststore_certificates,
        "ssl.certificate.location": security.ssl_keystore_location,
        "ssl.key.location": security.ssl_keystore_location,
        "ssl.certificate.pem": security.ssl_keystore_certificate_chain,
        "ssl.key.pem": security.ssl_keystore_key,
        "ssl.key.password": security.ssl_key_password,
        "ssl.endpoint.identification.algorithm": security.ssl_endpoint_identification_algorithm or "none",
    }
    return {name: value for name, value in given.items() if value is not None}
