"""Settings: how clients connect."""

from __future__ import annotations

from typing import Final

from minikafka.config.kinds import choice, nullable, protocols, secret, text, words
from minikafka.config.setting import Setting, SettingGroup

PLAINTEXT: Final = "PLAINTEXT"
SSL: Final = "SSL"
NO_CLIENT_AUTH: Final = "none"


class SecuritySettings(SettingGroup):
    """How clients connect: the protocol of each listener, and TLS.

    A client gets the address of the listener that it came by, so each has listeners of its own kind on every node.
    """

    listener_security_protocol_map = Setting(
        protocols(PLAINTEXT, SSL),
        {},
        kafka="SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        doc="""The protocol of each listener for clients, as NAME:PROTOCOL. A listener called SSL that is not listed
        speaks SSL, another one PLAINTEXT. REPLICATION and CONTROLLER speak PLAINTEXT; nodes prove to each other that
        they know the cluster's secret.""",
    )
    ssl_keystore_type = Setting(choice("PEM"), "PEM", kafka="JKS", doc="The format of ssl.keystore.location.")
    ssl_keystore_location = Setting(
        nullable(text()),
        None,
        doc="""A PEM file with the private key of this node and its certificate, followed by those of its issuers below
        the root. Clients look for the advertised host among the certificate's names.""",
    )
    ssl_key_password = Setting(nullable(secret()), None, doc="Of the private key, if it is encrypted.")
    ssl_truststore_type = Setting(choice("PEM"), "PEM", kafka="JKS", doc="The format of ssl.truststore.location.")
    ssl_truststore_location = Setting(
        nullable(text()),
        None,
        doc="A PEM file with the certificates of those who may issue certificates for clients.",
    )
    ssl_client_auth = Setting(
        choice(NO_CLIENT_AUTH, "requested", "required"),
        NO_CLIENT_AUTH,
        doc="""Whether a client needs a certificate of its own: none, requested (one that is given must be good) or
        required.""",
    )
    ssl_enabled_protocols = Setting(
        words("TLSv1.2", "TLSv1.3"), ("TLSv1.2", "TLSv1.3"), doc="The versions of TLS that are spoken."
    )
