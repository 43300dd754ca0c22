"""Settings: how clients and other nodes connect, and who may do what."""

from __future__ import annotations

from typing import Final

from minikafka.config.kinds import boolean, choice, nullable, only, principals, protocols, secret, text, words
from minikafka.config.node import CONTROLLER, REPLICATION
from minikafka.config.principals import PrincipalRules, principal_rules
from minikafka.config.setting import Setting, SettingGroup
from minikafka.config.stores import PEM, store_format

PLAINTEXT: Final = "PLAINTEXT"
SSL: Final = "SSL"
SASL_PLAINTEXT: Final = "SASL_PLAINTEXT"
SASL_SSL: Final = "SASL_SSL"
PROTOCOLS: Final = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)
WITH_TLS: Final = (SSL, SASL_SSL)
WITH_SASL: Final = (SASL_PLAINTEXT, SASL_SSL)
CLIENT_AUTH: Final = "ssl.client.auth"
NO_CLIENT_AUTH: Final = "none"
REQUIRED: Final = "required"
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class SecuritySettings(SettingGroup):
    """How clients and other nodes connect: the protocol of each listener, and TLS. Who may do what.

    A client gets the address of the listener that it came by, so each has listeners of its own kind on every node.
    """

    listener_security_protocol_map = Setting(
        protocols(*PROTOCOLS),
        {},
        kafka="SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        doc="""The protocol of each listener, as NAME:PROTOCOL. A listener that is not listed speaks the protocol by
        whose name it is called, and otherwise PLAINTEXT. With REPLICATION:SSL,CONTROLLER:SSL, the same on all nodes,
        these encrypt what they send to each other; both ends need certificates by ssl.truststore.location, beside the
        cluster's secret.""",
    )
    inter_broker_listener_name = Setting(
        only(
            REPLICATION, "so nodes call their listener for each other; listener.security.protocol.map has its protocol"
        ),
        REPLICATION,
        kafka="empty",
        doc="The listener by which brokers reach each other. Its name is the same in every cluster.",
    )
    security_inter_broker_protocol = Setting(
        nullable(choice(*PROTOCOLS)),
        None,
        kafka=PLAINTEXT,
        doc="""The protocol of REPLICATION. It need not be set: listener.security.protocol.map says it, and nothing
        else may be said here.""",
    )
    controller_listener_names = Setting(
        only(CONTROLLER, "so nodes call the listener of the quorum; listener.security.protocol.map has its protocol"),
        CONTROLLER,
        kafka="empty",
        doc="The listener of the controller quorum. Its name is the same in every cluster.",
    )
    ssl_keystore_type = Setting(
        store_format(),
        PEM,
        kafka="JKS",
        doc="The format of ssl.keystore.location: PEM, or PKCS12 (pip install 'minikafka[secure]').",
    )
    ssl_keystore_location = Setting(
        nullable(text()),
        None,
        doc="""A file with the private key of this node and its certificate, followed by those of its issuers below
        the root. Clients look for the advertised host among the certificate's names. Set again while the node runs, it
        is read again, for new connections.""",
        dynamic=True,
        of_one_node=True,
    )
    ssl_keystore_password = Setting(nullable(secret()), None, doc="Of a key store in PKCS12. PEM has none.")
    ssl_key_password = Setting(
        nullable(secret()),
        None,
        doc="Of the private key, if it is encrypted. A key store in PKCS12 has one password for all.",
    )
    ssl_truststore_type = Setting(
        store_format(),
        PEM,
        kafka="JKS",
        doc="The format of ssl.truststore.location: PEM, or PKCS12 (pip install 'minikafka[secure]').",
    )
    ssl_truststore_location = Setting(
        nullable(text()),
        None,
        doc="""A file with the certificates of those who may issue them for clients, and for other nodes. It,
        too, is read again when it is set again.""",
        dynamic=True,
        of_one_node=True,
    )
    ssl_truststore_password = Setting(nullable(secret()), None, doc="Of a trust store in PKCS12. PEM has none.")
    ssl_endpoint_identification_algorithm = Setting(
        nullable(choice("https", any_case=True)),
        "https",
        doc="""https: the certificate of a node that this one connects to must name the host of its address. Empty: any
        certificate will do that ssl.truststore.location vouches for.""",
    )
    ssl_client_auth = Setting(
        choice(NO_CLIENT_AUTH, "requested", REQUIRED),
        NO_CLIENT_AUTH,
        doc="""Whether a client needs a certificate of its own: none, requested (one that is given must be good) or
        required. It may be set for one listener: `listener.name.ssl.ssl.client.auth`. At SASL_SSL, where clients log
        in, only that counts (`listener.name.sasl_ssl.ssl.client.auth`).""",
    )
    ssl_principal_mapping_rules = Setting(
        principal_rules(),
        PrincipalRules("DEFAULT"),
        doc="""Which user a client with a certificate is: the first rule that fits its distinguished name (CN=...,O=...)
        says so; DEFAULT is the whole name. A client whose name fits no rule is refused.""",
    )
    ssl_enabled_protocols = Setting(
        words("TLSv1.2", "TLSv1.3"), ("TLSv1.2", "TLSv1.3"), doc="The versions of TLS that are spoken."
    )
    authorizer_class_name = Setting(
        nullable(choice(STANDARD_AUTHORIZER)),
        None,
        doc="""Decides who may do what: by ACLs, or, if empty, everyone may do everything. The same on every node.
        Requests for ACLs are refused without it.""",
    )
    super_users = Setting(
        principals(),
        (),
        doc="Who may do everything, whatever ACLs say: User:name, separated by semicolons. They create the first ACLs.",
    )
    initial_scram_credentials_file = Setting(
        nullable(text()),
        None,
        doc="""A file with the first users of a new cluster, one a line, as kafka-storage.sh --add-scram takes them:
        SCRAM-SHA-512=[name=admin,password=secret]. The same on every controller. Once the cluster is there it changes
        nothing; take the setting away before the file.""",
    )
    allow_everyone_if_no_acl_found = Setting(
        boolean(), False, doc="Everyone may do everything with a resource that no ACL is about. Else nobody may."
    )
