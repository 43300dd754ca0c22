"""The mechanisms that a listener offers: machines of ``minikafka.sasl``, with users, nonces and the time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from hashlib import pbkdf2_hmac
from itertools import chain
from typing import Final

from minikafka.broker.clock import Clock
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.threads import RunInThread
from minikafka.broker.token_keys import TokenKeys
from minikafka.config.jaas import CLOCK_SKEW, Jaas
from minikafka.config.sasl import OAUTHBEARER, PLAIN, SaslSettings
from minikafka.net.identity import Identity
from minikafka.sasl.exchange import ServerExchange
from minikafka.sasl.jwt import Demands, Validate, unsecured_claims
from minikafka.sasl.login import Mechanism
from minikafka.sasl.oauthbearer import OAuthBearerServer
from minikafka.sasl.plain import PlainServer
from minikafka.sasl.scram import BY_NAME, MIN_ITERATIONS, ScramCredential, ScramMechanism, base64
from minikafka.sasl.scram_server import Decoys, ScramServer, Shape, shape_of

SHAPES_MAX: Final = 16
"""Each costs a login a microsecond."""


class ScramUsers:
    """Users of SCRAM, those that are not there included."""

    def __init__(self, metadata: Metadata, identity: Identity) -> None:
        self._metadata = metadata
        self._identity = identity
        self._shapes_of: object = None
        self._decoys: Decoys | None = None

    def begin(self, mechanism: ScramMechanism) -> ServerExchange:
        """A new exchange."""
        nonce = base64(self._identity.nonce()).rstrip("=")
        return ScramServer(mechanism, partial(self._find, mechanism), self._current_decoys(), nonce)

    def _find(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        return self._metadata.image.scram_credential(user, mechanism)

    def _current_decoys(self) -> Decoys:
        """With salts of the shapes, and the iterations, that users have: others would be told by theirs."""
        users = self._metadata.image.scram_credentials
        if self._decoys is None:
            self._decoys = Decoys(_hardened(self._identity))
        if users is not self._shapes_of:
            self._shapes_of = users
            shapes: dict[ScramMechanism, set[Shape]] = {mechanism: set() for mechanism in ScramMechanism}
            for mechanism, credential in chain.from_iterable(each.items() for each in users.values()):
                shapes[mechanism].add(shape_of(credential))
            self._decoys = replace(self._decoys, shapes={name: sorted(of)[:SHAPES_MAX] for name, of in shapes.items()})
        return self._decoys


def _hardened(identity: Identity) -> bytes:
    """What decoys are made of. Whoever asks for their salts can try secrets on them, for the price of a password."""
    return pbkdf2_hmac("sha512", identity.secret, identity.cluster_id.encode(), MIN_ITERATIONS)


class Mechanisms:
    """Those of all listeners of a node."""

    def __init__(self, users: ScramUsers, identity: Identity, clock: Clock, run_in_thread: RunInThread) -> None:
        self._users = users
        self._identity = identity
        self._clock = clock
        self._run_in_thread = run_in_thread
        self.token_keys: dict[str, TokenKeys] = {}
        """By address; somebody is to run them."""

    def of(self, settings: SaslSettings) -> dict[str, Mechanism]:
        """What a listener with these settings offers."""
        return {
            name: Mechanism(self._beginning(name, settings), settings.connections_max_reauth_ms)
            for name in settings.sasl_enabled_mechanisms
        }

    def _beginning(self, name: str, settings: SaslSettings) -> Callable[[], ServerExchange]:
        if name == PLAIN:
            assert settings.plain_sasl_jaas_config is not None, "the settings were checked"
            return partial(PlainServer, settings.plain_sasl_jaas_config.users, self._identity.secret)
        if name == OAUTHBEARER:
            return partial(OAuthBearerServer, self._validating(settings))
        return partial(self._users.begin, BY_NAME[name])

    def _validating(self, settings: SaslSettings) -> Validate:
        url = settings.sasl_oauthbearer_jwks_endpoint_url
        if url is None:
            assert settings.oauthbearer_sasl_jaas_config is not None, "the settings were checked"
            return _unsecured(settings.oauthbearer_sasl_jaas_config, self._clock)
        refresh_ms = settings.sasl_oauthbearer_jwks_endpoint_refresh_ms
        keys = self.token_keys.setdefault(url, TokenKeys(url, refresh_ms, self._run_in_thread))
        demands = Demands(
            principal_claim=settings.sasl_oauthbearer_sub_claim_name,
            clock_skew_ms=settings.sasl_oauthbearer_clock_skew_seconds * 1000,
            audiences=settings.sasl_oauthbearer_expected_audience or (),
            issuer=settings.sasl_oauthbearer_expected_issuer,
        )
        return lambda token: demands.check(keys.claims_of(token), self._clock.wall_ms())


def _unsecured(login: Jaas, clock: Clock) -> Validate:
    option = login.options.get
    demands = Demands(
        option("unsecuredValidatorPrincipalClaimName") or "sub",
        option("unsecuredValidatorScopeClaimName") or "scope",
        tuple((option("unsecuredValidatorRequiredScope") or "").split()),
        int(option(CLOCK_SKEW) or 0),
    )
    return lambda token: demands.check(unsecured_claims(token), clock.wall_ms())
