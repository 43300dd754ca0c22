"""Rows ``kafka.security.*``, ``kafka.ssl.*`` and ``kafka.sasl.*``: how a query proves the brokers, and itself.

They are those of a ``client.properties`` file (:mod:`minikafka.client.properties`). Their values are printed nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from minikafka.client import Security
from minikafka.client.properties import HANDLER, is_refused, security_of
from minikafka.spark.options.kinds import anything, hidden
from minikafka.spark.options.option import Option, OptionError, Side

PREFIX: Final = "kafka."
_IN_EVERY_PROCESS: Final = "It must be there on the driver and on every executor."
_DOCS: Final = {
    "security.protocol": "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL, as the listener of the brokers speaks.",
    "ssl.truststore.type": "PEM, or PKCS12 (pip install 'minikafka[secure]').",
    "ssl.truststore.location": f"A file with the certificates of those who vouch for brokers. {_IN_EVERY_PROCESS}",
    "ssl.truststore.certificates": "The text of such a file in PEM format.",
    "ssl.keystore.type": "PEM, or PKCS12.",
    "ssl.keystore.location": f"A file with a key and its certificate, for brokers that ask. {_IN_EVERY_PROCESS}",
    "ssl.keystore.certificate.chain": "The text of such a certificate in PEM format.",
    "ssl.endpoint.identification.algorithm": "https: a certificate must name the broker's host; empty: it need not.",
    "sasl.mechanism": "SCRAM-SHA-512, SCRAM-SHA-256, PLAIN or OAUTHBEARER, where the brokers ask who one is.",
    "sasl.oauthbearer.token.endpoint.url": "Of OAUTHBEARER: who issues tokens, or file:///PATH with a token.",
    "sasl.oauthbearer.client.credentials.client.id": "For whom a token is issued.",
    "sasl.oauthbearer.scope": "What such a token is asked for.",
    HANDLER: "The class by which Java's clients have tokens issued; it changes nothing here.",
}
_SECRETS: Final = {
    "ssl.truststore.password": "Of a trust store in PKCS12.",
    "ssl.keystore.password": "Of a key store in PKCS12.",
    "ssl.keystore.key": "The text of such a key.",
    "ssl.key.password": "Of the key, if it is encrypted.",
    "sasl.jaas.config": 'A login module with username="..." and password="...", as Java\'s clients take it.',
    "sasl.username": "Of such a login; a word of its own, as librdkafka takes it.",
    "sasl.password": "Of such a login.",
    "sasl.oauthbearer.client.credentials.client.secret": "With which a token is asked for.",
}
_DEFAULTS: Final = {
    "security.protocol": "PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-512",
    "ssl.truststore.type": "PEM",
    "ssl.keystore.type": "PEM",
    "ssl.endpoint.identification.algorithm": "https",
}

SECURITY_OPTIONS: Final = tuple(
    Option(f"{PREFIX}{name}", hidden() if name in _SECRETS else anything(), _DEFAULTS.get(name), Side.BOTH, doc)
    for name, doc in (_DOCS | _SECRETS).items()
)


def query_security(values: Mapping[str, Any]) -> Security:
    """From parsed values. Raises OptionError, which names what is wrong, also if a file cannot be used."""
    names = (option.name.removeprefix(PREFIX) for option in SECURITY_OPTIONS)
    given = {name: value for name in names if (value := values[f"{PREFIX}{name}"]) is not None}
    try:
        return security_of(given)
    except ValueError as error:
        raise OptionError(f"options '{PREFIX}*': {error}") from None


def check_known(name: str) -> None:
    """Raise OptionError for an option about security that is none of these: its user relies on it."""
    own = name.lower().removeprefix(PREFIX)
    if is_refused(own):
        raise OptionError(f"option '{name}' cannot be used: {', '.join(sorted(_DOCS | _SECRETS))} are what can be said")
