"""All settings of a node, and what must hold between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, permutations
from posixpath import join, normpath
from typing import Any, Final

from minikafka.config.groups import GroupSettings
from minikafka.config.logs import LogSettings
from minikafka.config.node import CONTROLLER, LISTENER_NAMES, REPLICATION, NodeSettings
from minikafka.config.quorum import QuorumSettings
from minikafka.config.sasl import LOGIN, PREFIX, SaslSettings, problems_of
from minikafka.config.security import (
    CLIENT_AUTH,
    NO_CLIENT_AUTH,
    PLAINTEXT,
    PROTOCOLS,
    REQUIRED,
    SASL_SSL,
    WITH_SASL,
    WITH_TLS,
    SecuritySettings,
)
from minikafka.config.setting import (
    ConfigEntry,
    ConfigError,
    ConfigSource,
    ConfigSynonym,
    Setting,
    parse_settings,
    source_of,
)
from minikafka.config.sources import flatten
from minikafka.config.topics import QuotaSettings, ReplicationSettings, TopicDefaultSettings
from minikafka.config.transactions import TransactionSettings
from minikafka.model import Endpoint

OF_LISTENERS: Final[Mapping[str, Setting[Any]]] = {
    **SaslSettings.rows(),
    CLIENT_AUTH: SecuritySettings.rows()[CLIENT_AUTH],
}
"""What may also be set for one listener."""
WITHOUT_EFFECT: Final = (
    "background.threads",
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.io.buffer.load.factor",
    "log.cleaner.io.buffer.size",
    "log.cleaner.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.alter.log.dirs.threads",
    "queued.max.requests",
    "replica.socket.receive.buffer.bytes",
    "share.coordinator.state.topic.min.isr",
    "share.coordinator.state.topic.replication.factor",
    "socket.receive.buffer.bytes",
    "socket.send.buffer.bytes",
)
"""Settings of Kafka's about threads and buffers that are not here, and those of its stock files. A node takes them."""
NOBODY_CONNECTS: Final = "max.connections.per.ip = 0: must be 1 or more without max.connections.per.ip.overrides"
WILDCARD_HOSTS: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - named, not bound


class BrokerConfig(
    NodeSettings,
    SecuritySettings,
    SaslSettings,
    TopicDefaultSettings,
    ReplicationSettings,
    QuorumSettings,
    LogSettings,
    GroupSettings,
    TransactionSettings,
    QuotaSettings,
):
    """A node's settings: ``config.replica_lag_time_max_ms``; on the class, the declared row.

    ``BrokerConfig(file, environment, flags)`` merges its sources, later ones first. A source maps Kafka's names, or
    nested TOML tables that spell them, to text or native values. Raises ConfigError naming every problem. Those that
    are ``without_effect`` are left out.

    Above these *static* values may lie *dynamic* ones, set on the running cluster: :meth:`overridden`. Which source
    gave a value stays known, for DescribeConfigs.
    """

    _layers: tuple[tuple[ConfigSource, Mapping[str, Any]], ...]
    _of_listeners: Mapping[str, Mapping[str, Any]]
    without_effect: tuple[str, ...] = ()

    def __init__(self, *sources: Mapping[str, object]) -> None:
        given: dict[str, object] = {}
        for source in sources:
            given |= flatten(source)
        vars(self)["without_effect"] = tuple(name for name in WITHOUT_EFFECT if given.pop(name, None) is not None)
        of_listeners = {name: given.pop(name) for name in list(given) if name.startswith(PREFIX)}
        self._set_layers(((ConfigSource.STATIC_BROKER_CONFIG, parse_settings(self.rows(), given)),))
        vars(self)["_of_listeners"] = _parse_of_listeners(of_listeners, self.listeners)
        check_node(self)

    def overridden(self, node: Mapping[str, str], cluster: Mapping[str, str]) -> BrokerConfig:
        """This node's static values below the dynamic ones of this node and of the whole cluster.

        Only dynamic settings are taken. What does not parse is left out: the controller refuses such values before
        they are recorded, so it can only be something a newer node understands.
        """
        static = self._layers[-1]
        config = BrokerConfig.__new__(BrokerConfig)
        config._set_layers(
            (
                (ConfigSource.DYNAMIC_BROKER_CONFIG, _parse_dynamic(node)),
                (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, _parse_dynamic(cluster)),
                static,
            )
        )
        vars(config)["_of_listeners"] = self._of_listeners
        return config

    def _set_layers(self, layers: tuple[tuple[ConfigSource, Mapping[str, Any]], ...]) -> None:
        values: dict[str, Any] = {}
        for _, layer in reversed(layers):
            values |= layer
        attributes = {row.attribute: values.get(name, row.default) for name, row in self.rows().items()}
        vars(self).update(attributes, _layers=layers)

    def set_values(self, name: str) -> Iterator[tuple[ConfigSource, Any]]:
        """The values that sources give to a setting, strongest first; its default is not among them."""
        for source, layer in self._layers:
            if name in layer:
                yield source, layer[name]

    @property
    def advertised(self) -> Mapping[str, Endpoint]:
        """Where each listener is reached from outside, by name."""
        return {**self.listeners, **self.advertised_listeners}

    def security_protocol(self, listener: str) -> str:
        """What the listener speaks."""
        return self.listener_security_protocol_map.get(listener, listener if listener in PROTOCOLS else PLAINTEXT)

    def sasl_of(self, listener: str) -> SaslSettings:
        """What holds at a listener: its own settings, before those of all."""
        settings, own = SaslSettings(), self._of_listeners.get(listener, {})
        for name, row in SaslSettings.rows().items():
            vars(settings)[row.attribute] = own.get(name, getattr(self, row.attribute))
        return settings

    def client_auth(self, listener: str) -> str:
        """Whether the listener asks clients for certificates. Where they log in, only its own setting counts, as in
        Apache Kafka (KIP-684)."""
        if listener in (REPLICATION, CONTROLLER):
            return REQUIRED
        for_all = NO_CLIENT_AUTH if self.security_protocol(listener) == SASL_SSL else self.ssl_client_auth
        own: str = self._of_listeners.get(listener, {}).get(CLIENT_AUTH, for_all)
        return own

    @property
    def voters(self) -> Mapping[int, Endpoint]:
        """The controller quorum by node id; this node alone when none is configured."""
        return self.controller_quorum_voters or {self.node_id: self.advertised[CONTROLLER]}

    def describe(self) -> list[ConfigEntry]:
        """Every setting with its value and where it came from, for DescribeConfigs of a broker."""
        return [self._entry(row) for row in self.rows().values()]

    def describe_cluster_wide(self) -> list[ConfigEntry]:
        """What is set for all brokers of the running cluster, for DescribeConfigs of the broker without a name."""
        entries = []
        for entry in self.describe():
            shared = tuple(each for each in entry.synonyms if each.source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
            if shared:
                entries.append(entry._replace(value=shared[0].value, source=shared[0].source, synonyms=shared))
        return entries

    def _entry(self, row: Setting[Any]) -> ConfigEntry:
        synonyms = tuple(self.synonyms(row.name))
        return ConfigEntry(
            row.name,
            row.shown(getattr(self, row.attribute)),
            source_of(synonyms),
            is_read_only=not row.dynamic,
            is_sensitive=row.is_sensitive,
            config_type=row.kind.config_type,
            documentation=row.doc,
            synonyms=synonyms,
        )

    def synonyms(self, name: str) -> Iterator[ConfigSynonym]:
        """What gives a setting its value, strongest first, down to its default where there is one."""
        row = self.rows()[name]
        for source, value in chain(self.set_values(name), [(ConfigSource.DEFAULT_CONFIG, row.default)]):
            if value is not None:
                yield ConfigSynonym(name, row.shown(value), source)

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={self.rows()[name].shown(value)}" for name, value in self._layers[-1][1].items())
        return f"BrokerConfig({given})"


def _parse_of_listeners(given: Mapping[str, object], listeners: Mapping[str, Endpoint]) -> dict[str, dict[str, Any]]:
    """``listener.name.NAME.SETTING`` by listener and setting. NAME is in lower case, and has dots for underscores where
    it comes from the environment."""
    found: dict[str, dict[str, Any]] = {}
    for name, raw in given.items():
        rest = name.removeprefix(PREFIX)
        setting = max((row for row in OF_LISTENERS if rest.endswith(f".{row}")), key=len, default=None)
        if setting is None:
            known = ", ".join(row for row in OF_LISTENERS if row.endswith(LOGIN) or not rest.endswith(LOGIN))
            raise ConfigError([f"setting {name!r} not found; for one listener there are {known}"])
        wanted = rest.removesuffix(f".{setting}").lower().replace("_", ".")
        listener = next((each for each in listeners if each.lower().replace("_", ".") == wanted), None)
        if listener is None:
            raise ConfigError([f"{name}: there is no such listener among {', '.join(listeners)}"])
        found.setdefault(listener, {}).update(parse_settings(OF_LISTENERS, {setting: raw}))
    return found


def secrets_in(settings: Mapping[str, object]) -> list[str]:
    """The names of those that must not be shown, also of one listener's."""
    secrets = tuple(f".{name}" for name, row in BrokerConfig.rows().items() if row.is_sensitive)
    return [name for name, value in settings.items() if value and f".{name}".endswith(secrets)]


def parse_dynamic_setting(name: str, value: str) -> Any:
    """The value of a setting that is to be changed on the running cluster; ConfigError when it cannot be."""
    values = parse_settings(BrokerConfig.rows(), {name: value})
    if not BrokerConfig.rows()[name].dynamic:
        raise ConfigError([f"{name} is read when a node starts; set it in the node's configuration and restart it"])
    return values[name]


def _parse_dynamic(given: Mapping[str, str]) -> dict[str, Any]:
    parsed: dict[str, Any] = {}
    for name, value in given.items():
        try:
            parsed[name] = parse_dynamic_setting(name, value)
        except ConfigError:
            continue
    return parsed


def check_node(config: BrokerConfig) -> None:
    """What must hold between settings; raises one ConfigError that names every problem."""
    checks = (_check_identity, _check_listeners, _check_security, _check_orders, _check_bounds)
    if problems := [problem for check in checks for problem in check(config)]:
        raise ConfigError(problems)


def _check_identity(config: BrokerConfig) -> Iterator[str]:
    yield from _check_roles(config)
    paths = [normpath(path) for path in config.log_dirs]
    for path in dict.fromkeys(path for path in paths if paths.count(path) > 1):
        yield f"log.dirs: duplicate directory {path}"
    for outer, inner in permutations(dict.fromkeys(paths), 2):
        if inner.startswith(join(outer, "")):  # it could be deleted with a partition or a stray
            yield f"log.dirs: {inner} is inside {outer}; use separate directories"
    if config.cluster_secret is not None and config.cluster_secret_file is not None:
        yield "cluster.secret and cluster.secret.file are both set; keep one"
    if len({config.node_id, *config.controller_quorum_voters}) > 1:
        if config.cluster_id is None:
            yield "cluster.id is not set; all nodes of a cluster need the same cluster.id"
        if config.cluster_secret is None and config.cluster_secret_file is None:
            yield "cluster.secret.file (or cluster.secret) is not set; nodes authenticate each other with it"


def _check_roles(config: BrokerConfig) -> Iterator[str]:
    """A voter is broker and controller; a node that joins later and does not vote is a broker."""
    roles, voters = set(config.process_roles), config.controller_quorum_voters
    names = ", ".join(map(str, voters))
    if "broker" not in roles:
        yield f"process.roles = {','.join(config.process_roles)}: must have broker; a controller alone is not supported"
    elif "controller" in roles and voters and config.node_id not in voters:
        yield (
            f"node.id = {config.node_id}: must be one of controller.quorum.voters ({names}), "
            "unless process.roles=broker"
        )
    elif "controller" not in roles and not voters:
        yield "controller.quorum.voters is not set; with process.roles=broker it must name the controllers to follow"
    elif "controller" not in roles and config.node_id in voters:
        yield f"process.roles = broker: node {config.node_id} is one of controller.quorum.voters; use broker,controller"


def _check_listeners(config: BrokerConfig) -> Iterator[str]:
    for name in LISTENER_NAMES:
        if name not in config.listeners:
            yield f"listeners: {name} is missing; all of {', '.join(LISTENER_NAMES)} are needed"
    for name in config.advertised:
        if name not in config.listeners:
            yield f"advertised.listeners: {name} is not one of listeners ({', '.join(config.listeners)})"
        elif config.advertised[name].host in WILDCARD_HOSTS and not (
            name == CONTROLLER and config.controller_quorum_voters
        ):
            if name in config.advertised_listeners:
                yield f"advertised.listeners: {name} cannot be {config.advertised[name]}; name a host that others reach"
            else:
                yield f"listeners binds {name} to every address; set its reachable address in advertised.listeners"
    addresses = [*config.listeners.values(), config.metrics_listener]
    bound = [endpoint for endpoint in addresses if endpoint is not None and endpoint.port]
    for endpoint in dict.fromkeys(endpoint for endpoint in bound if bound.count(endpoint) > 1):
        yield f"listeners: two listeners have the address {endpoint}"


def _check_security(config: BrokerConfig) -> Iterator[str]:
    for name, protocol in config.listener_security_protocol_map.items():
        if name not in config.listeners and name != protocol:  # Kafka's own files have SSL:SSL and the like
            yield f"listener.security.protocol.map: {name} is not one of listeners ({', '.join(config.listeners)})"
    between, said = config.security_protocol(REPLICATION), config.security_inter_broker_protocol
    if said not in (None, between):
        yield (
            f"security.inter.broker.protocol = {said}: must be {between}, which REPLICATION speaks; "
            f"set listener.security.protocol.map=REPLICATION:{said} on all nodes"
        )
    secured = [name for name in config.listeners if config.security_protocol(name) in WITH_TLS]
    if secured and config.ssl_keystore_location is None:
        yield f"ssl.keystore.location is not set; listener {secured[0]} needs a key and a certificate"
    for name in secured:
        if config.ssl_truststore_location is None and (wanted := config.client_auth(name)) != NO_CLIENT_AUTH:
            why = "to check the other nodes" if name in (REPLICATION, CONTROLLER) else f"for ssl.client.auth={wanted}"
            yield f"ssl.truststore.location is not set; listener {name} needs it {why}"
    for name in (REPLICATION, CONTROLLER):
        if config._of_listeners.get(name, {}).get(CLIENT_AUTH, REQUIRED) != REQUIRED:
            yield f"ssl.client.auth at listener {name} must be {REQUIRED}: nodes prove themselves by certificates there"
    for name in config.listeners:
        if config.security_protocol(name) not in WITH_SASL:
            continue
        if name in (REPLICATION, CONTROLLER):
            yield f"listener.security.protocol.map: {name} must be PLAINTEXT or SSL: nodes prove themselves otherwise"
        yield from problems_of(name, config.sasl_of(name))


def _check_orders(config: BrokerConfig) -> Iterator[str]:
    for lower, upper in (
        (BrokerConfig.broker_heartbeat_interval_ms, BrokerConfig.broker_session_timeout_ms),
        (BrokerConfig.replica_fetch_wait_max_ms, BrokerConfig.replica_lag_time_max_ms),
        (BrokerConfig.group_min_session_timeout_ms, BrokerConfig.group_max_session_timeout_ms),
        (BrokerConfig.group_consumer_heartbeat_interval_ms, BrokerConfig.group_consumer_session_timeout_ms),
    ):
        low, high = getattr(config, lower.attribute), getattr(config, upper.attribute)
        if low >= high:
            yield f"{lower.name} = {low}: must be below {upper.name} = {high}"


def _check_bounds(config: BrokerConfig) -> Iterator[str]:
    """Somebody must be able to connect. The bounds of what a group may set hold for what it falls back to."""
    if not config.max_connections_per_ip and not config.max_connections_per_ip_overrides:
        yield NOBODY_CONNECTS
    yield from out_of_bounds(config)


BOUNDS: Final = {
    BrokerConfig.group_consumer_session_timeout_ms: (
        BrokerConfig.group_consumer_min_session_timeout_ms,
        BrokerConfig.group_consumer_max_session_timeout_ms,
    ),
    BrokerConfig.group_consumer_heartbeat_interval_ms: (
        BrokerConfig.group_consumer_min_heartbeat_interval_ms,
        BrokerConfig.group_consumer_max_heartbeat_interval_ms,
    ),
    BrokerConfig.group_consumer_assignment_interval_ms: (
        BrokerConfig.group_consumer_min_assignment_interval_ms,
        BrokerConfig.group_consumer_max_assignment_interval_ms,
    ),
}
"""By setting that groups may have of their own, the settings that bound it."""


def out_of_bounds(config: BrokerConfig) -> Iterator[str]:
    """What groups fall back to and would not be allowed to set: one sentence each."""
    for row, (least, most) in BOUNDS.items():
        value, low, high = (getattr(config, each.attribute) for each in (row, least, most))
        if not low <= value <= high:
            yield f"{row.name} = {value}: must be from {low} ({least.name}) to {high} ({most.name})"
