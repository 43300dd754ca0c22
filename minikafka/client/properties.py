"""Security by Kafka's names: of a ``client.properties`` file, or of the options of a query.

What is not about security is left out, so that a file for Java's client can be used as it is. What is, and cannot be
had, is refused: its user relies on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from minikafka.client.security import Security
from minikafka.config import ConfigError, parse_properties

_FIELDS: Final = {
    field.name.replace("_", "."): field.name for field in fields(Security) if field.name != "sasl_oauth_token"
}
_IN_ANY_CASE: Final = {"security_protocol", "ssl_truststore_type", "ssl_keystore_type"}
WITHOUT_EFFECT: Final = frozenset(
    {
        *("ssl.protocol", "ssl.provider", "ssl.secure.random.implementation", "security.providers"),
        *("ssl.keymanager.algorithm", "ssl.trustmanager.algorithm"),
        *("sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms"),
        *("sasl.login.retry.backoff.ms", "sasl.login.retry.backoff.max.ms"),
        *("sasl.login.refresh.window.factor", "sasl.login.refresh.window.jitter"),
        *("sasl.login.refresh.min.period.seconds", "sasl.login.refresh.buffer.seconds"),
    }
)
"""How Java does it: taken, and ignored."""
_ABOUT_SECURITY: Final = ("ssl.", "sasl.", "security.")
HANDLER: Final = "sasl.login.callback.handler.class"
_OF_TOKENS: Final = "org.apache.kafka.common.security.oauthbearer.{}OAuthBearerLoginCallbackHandler"
_HANDLERS: Final = (_OF_TOKENS.format(""), _OF_TOKENS.format("secured."))
"""By which Java's clients, now and before Kafka 4, have tokens issued: ours do anyway."""


def security_of_file(path: Path) -> Security:
    """Of a file as Kafka's tools take by ``--command-config``. Raises ValueError, which names the file or property."""
    try:
        given = parse_properties(path.read_text(encoding="utf-8-sig"))  # some editors begin a file with a mark
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: it is not UTF-8 text") from None
    except ConfigError as error:
        raise ValueError(f"{path}: {'; '.join(error.problems)}") from None
    return security_of(given)


def security_of(given: Mapping[str, str]) -> Security:
    """Of properties. Raises ValueError, which names the one that is wrong, also if a file of it cannot be used."""
    known: dict[str, Any] = {}
    for name, value in given.items():
        if name in _FIELDS:
            known[_FIELDS[name]] = value.strip()
        elif name == HANDLER:
            if value.strip() not in _HANDLERS:
                raise ValueError(f"{HANDLER} is {value.strip()}; it must be {_HANDLERS[0]}, or left out")
        elif is_refused(name):
            raise ValueError(f"{name} cannot be set here; {', '.join(_FIELDS)} can")
    for name in _IN_ANY_CASE & known.keys():
        known[name] = known[name].upper()
    security = Security(**known)
    security.context()
    security.sasl()
    return security


def is_refused(name: str) -> bool:
    """Whether the property is about security, and :func:`security_of` does not know it."""
    return name.startswith(_ABOUT_SECURITY) and name not in {*_FIELDS, *WITHOUT_EFFECT, HANDLER}
