"""Settings: how clients prove who they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from minikafka.config.jaas import PLAIN_MODULE, jaas, scram_jaas, unsecured_jaas
from minikafka.config.kinds import integer, long, nullable, text, words
from minikafka.config.setting import Setting, SettingGroup

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
LOGIN: Final = ".sasl.jaas.config"
PREFIX: Final = "listener.name."
_SCRAM_LOGIN: Final = """Brokers of Apache Kafka need it. Here it changes nothing: the users are metadata of the
cluster. username and password, by which Kafka's brokers log in to each other, are ignored."""


class SaslSettings(SettingGroup):
    """How clients prove who they are: SASL, at listeners that speak SASL_PLAINTEXT or SASL_SSL.

    Each may also be set for one listener, by its name in lower case: `listener.name.sasl_ssl.plain.sasl.jaas.config`.
    """

    sasl_enabled_mechanisms = Setting(
        words(PLAIN, *SCRAM, OAUTHBEARER),
        SCRAM,
        kafka="GSSAPI",
        doc="The mechanisms that clients may use. SCRAM needs nothing here: its users are metadata of the cluster.",
    )
    plain_sasl_jaas_config = Setting(
        nullable(jaas(PLAIN_MODULE)),
        None,
        doc='The users of PLAIN and their passwords, as user_NAME="password"; the same on every node.',
    )
    scram_sha_256_sasl_jaas_config = Setting(
        nullable(scram_jaas()), None, name="scram-sha-256.sasl.jaas.config", doc=_SCRAM_LOGIN
    )
    scram_sha_512_sasl_jaas_config = Setting(
        nullable(scram_jaas()), None, name="scram-sha-512.sasl.jaas.config", doc=_SCRAM_LOGIN
    )
    oauthbearer_sasl_jaas_config = Setting(
        nullable(unsecured_jaas()),
        None,
        doc="""For OAUTHBEARER without sasl.oauthbearer.jwks.endpoint.url: tokens that nobody signed, as in Apache
        Kafka for tests only; a client names itself what it likes. Options: unsecuredValidatorPrincipalClaimName,
        unsecuredValidatorScopeClaimName, unsecuredValidatorRequiredScope, unsecuredValidatorAllowableClockSkewMs.""",
    )
    sasl_oauthbearer_jwks_endpoint_url = Setting(
        nullable(text(r"(file|https?)://.+", "file:///path or https://...")),
        None,
        doc="""For OAUTHBEARER with signed tokens (pip install 'minikafka[oauth]'): where the keys are of those who sign
        them, as a JWKS. Whoever could change what is there could let itself in.""",
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms = Setting(
        long(1_000),
        3_600_000,
        doc="The keys are read again after so long, and soon after a token named an unknown one.",
    )
    sasl_oauthbearer_expected_audience = Setting(
        nullable(words()), None, doc="A signed token must be for one of these (claim aud)."
    )
    sasl_oauthbearer_expected_issuer = Setting(
        nullable(text()), None, doc="A signed token must be of this one (claim iss)."
    )
    sasl_oauthbearer_clock_skew_seconds = Setting(
        integer(0, 3600), 30, doc="So far apart may be the clocks of this node and of who signs tokens."
    )
    sasl_oauthbearer_sub_claim_name = Setting(text(), "sub", doc="The claim of a signed token that names the user.")
    connections_max_reauth_ms = Setting(
        long(),
        0,
        doc="""A client is to prove itself again within so long, or its next request closes its connection (KIP-368);
        0: it need not.""",
    )
    connection_failed_authentication_delay_ms = Setting(
        integer(0, 10_000), 100, doc="Who fails to prove itself is told after so long, and the connection closed."
    )
    sasl_server_max_receive_size = Setting(
        integer(1024),
        65_536,
        kafka="524288",
        doc="A larger request of a client that has not proved who it is closes its connection.",
    )


def problems_of(listener: str, settings: SaslSettings) -> Iterator[str]:
    """What a listener that speaks SASL lacks."""
    login = settings.plain_sasl_jaas_config
    if PLAIN in settings.sasl_enabled_mechanisms:
        if login is None:
            yield f"plain.sasl.jaas.config is not set; PLAIN at listener {listener} needs it"
        elif not login.users:
            yield f'plain.sasl.jaas.config names no user at listener {listener}: user_NAME="password" does'
    keys, unsecured = settings.sasl_oauthbearer_jwks_endpoint_url, settings.oauthbearer_sasl_jaas_config
    if OAUTHBEARER in settings.sasl_enabled_mechanisms and keys is None and unsecured is None:
        yield (
            f"sasl.oauthbearer.jwks.endpoint.url is not set; OAUTHBEARER at listener {listener} needs it, or "
            "oauthbearer.sasl.jaas.config for tokens that nobody signed"
        )
