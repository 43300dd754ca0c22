"""Formats of key stores and trust stores: those that are read, and how Java's own becomes one of them."""

from __future__ import annotations

from typing import Final

from minikafka.config.kinds import ConfigType, Kind

PEM: Final = "PEM"
PKCS12: Final = "PKCS12"
JKS: Final = "JKS"
FORMATS: Final = (PEM, PKCS12)


def store_format() -> Kind[str]:
    """The format of a store."""

    def parse(raw: object) -> str:
        word = raw.strip().upper() if isinstance(raw, str) else ""
        if word not in FORMATS:
            raise ValueError(expected_instead_of(word))
        return word

    return Kind(ConfigType.STRING, " or ".join(FORMATS), parse)


def expected_instead_of(given: str, path: str = "FILE") -> str:
    """What completes "must be ..." for a format that is not read."""
    allowed = " or ".join(FORMATS)
    return f"{allowed}; {remedy_of_jks(path)}" if given.upper() == JKS else allowed


def remedy_of_jks(path: str) -> str:
    """How to make PKCS12 of JKS."""
    own = f"{path.removesuffix('.jks')}.p12"
    return f"make PKCS12 of it: keytool -importkeystore -srckeystore {path} -destkeystore {own} -deststoretype PKCS12"
