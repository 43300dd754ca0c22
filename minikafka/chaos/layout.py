"""A local cluster on disk: its directory, ports, ids and configuration files.

::

    DIR/cluster.json              cluster id, base port, node ids, settings: restarts keep ids and ports
    DIR/cluster.secret            the secret that nodes prove to each other (mode 0600)
    DIR/security/                 certificates and passwords of a secure cluster: see ``authority`` and ``logins``
    DIR/node-N/server.properties  written once; edit it to change a node
    DIR/node-N/data/              the node's log directory
    DIR/node-N/broker.log         output of the node
    DIR/node-N/pid

Node i (from 1) listens for clients on ``base port + i - 1``, for replicas 100 above that, for the controller quorum
200 above, and for HTTP 300 above if the cluster was made with metrics. The first nodes of a cluster are its
controller quorum; nodes that are added later have no vote.
"""

from __future__ import annotations

import base64
import json
import os
import re
import secrets
import shlex
import uuid
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import ssl

    from minikafka.chaos.authority import Authority
    from minikafka.chaos.logins import Logins
    from minikafka.chaos.probe import Entrance
    from minikafka.client import Security

HOST: Final = "127.0.0.1"
DIRECTORY_VARIABLE: Final = "MINIKAFKA_DIR"
DEFAULT_BASE_PORT: Final = 19092
REPLICATION_PORT_OFFSET: Final = 100
CONTROLLER_PORT_OFFSET: Final = 200
METRICS_PORT_OFFSET: Final = 300
BROKERS_MAX: Final = REPLICATION_PORT_OFFSET - 1
_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]+")


class ClusterError(Exception):
    """A problem of a local cluster. The message has the problem and the remedy."""


class NodeDownError(ClusterError):
    """A node has no process, or thread: it was told something, and ended meanwhile."""


class LoginRefusedError(ClusterError):
    """Nodes are up, and know another password than is used here."""


def default_directory() -> Path:
    """``$MINIKAFKA_DIR``, or ``~/.minikafka/default``. Raises ClusterError for a user without a home directory."""
    if named := os.environ.get(DIRECTORY_VARIABLE):
        return Path(named)
    try:
        return Path.home() / ".minikafka" / "default"
    except RuntimeError:  # the user of a container, without HOME
        raise ClusterError("this user has no home directory; name one for the cluster with --dir") from None


def option_of(directory: Path) -> str:
    """The option for a resolved directory on a command line; empty for the default one."""
    try:
        is_default = directory == default_directory().expanduser().resolve()
    except ClusterError:
        is_default = False
    return "" if is_default else f"--dir {shlex.quote(str(directory))}"


def command(words: str, directory: Path) -> str:
    """A command line for the cluster in a directory, to be shown to the user."""
    return f"minikafka {words} {option_of(directory)}".rstrip()


@dataclass(frozen=True, slots=True)
class ClusterLayout:
    """A cluster's identity and the paths of its parts."""

    directory: Path
    cluster_id: str
    base_port: int
    node_ids: list[int]
    settings: dict[str, str] = field(default_factory=dict)
    voters: int = 0
    """How many of the nodes, the first, are the controller quorum; 0: all of them."""
    next_id: int = 0
    """What the node that is added next will be called; 0: one more than the last."""
    metrics: bool = False
    """Each node serves metrics and its health over HTTP."""
    secure: bool = False
    """All that nodes and clients say to each other is encrypted; clients log in, and may do what ACLs allow."""

    @classmethod
    def create(
        cls,
        directory: Path,
        brokers: int,
        base_port: int,
        settings: dict[str, str],
        *,
        metrics: bool = False,
        secure: bool = False,
    ) -> ClusterLayout:
        """Lay out a new cluster in an empty or missing directory. Any other directory is refused."""
        directory = directory.expanduser().resolve()
        check_size(brokers, base_port, metrics=metrics)
        if "," in str(directory):  # log.dirs is a list
            raise ClusterError(f"{directory} has a comma in its name; choose another --dir")
        if directory.exists() and not directory.is_dir():
            raise ClusterError(f"{directory} is not a directory; choose another --dir")
        if directory.is_dir() and any(directory.iterdir()):
            raise ClusterError(f"{directory} is not empty, but contains no cluster; choose another --dir")
        node_ids = list(range(1, brokers + 1))
        cluster_id = new_cluster_id()
        layout = cls(directory, cluster_id, base_port, node_ids, settings, brokers, metrics=metrics, secure=secure)
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)  # who may write there may exchange the secrets
        layout.save()
        return layout

    @classmethod
    def open(cls, directory: Path) -> ClusterLayout:
        """The layout of an existing cluster."""
        directory = directory.expanduser().resolve()
        try:
            layout = cls(directory=directory, **json.loads(directory.joinpath("cluster.json").read_text()))
            layout.check()
            return layout
        except (FileNotFoundError, NotADirectoryError):
            create = command("cluster start", directory)
            raise ClusterError(f"no cluster found in {directory}; create one with: {create}") from None
        except (ValueError, TypeError, RecursionError) as error:
            raise ClusterError(f"{directory / 'cluster.json'} is damaged, or of another version: {error}") from None

    @staticmethod
    def exists(directory: Path) -> bool:
        """True when `directory` holds a cluster."""
        return directory.expanduser().joinpath("cluster.json").exists()

    def with_added_node(self) -> ClusterLayout:
        """This layout with one more node, a broker without a vote. Ids are never reused."""
        node_id = self.next_id or max(self.node_ids) + 1
        check_size(node_id, self.base_port, metrics=self.metrics)
        return replace(self, node_ids=[*self.node_ids, node_id], voters=len(self.voter_ids), next_id=node_id + 1)

    def without_node(self, node_id: int) -> ClusterLayout:
        """This layout without a node, which must have no vote."""
        if node_id in self.voter_ids:
            raise ClusterError(
                f"node {node_id} votes in the controller quorum, whose members do not change; "
                f"it can be drained and stopped, but stays a node of the cluster"
            )
        return replace(self, node_ids=[other for other in self.node_ids if other != node_id])

    def save(self) -> None:
        fields = asdict(self)
        del fields["directory"]
        # Settings may have passwords.
        write_private(self.directory / "cluster.json", json.dumps(fields, indent=2) + "\n")

    def check(self) -> None:
        """Raise ValueError or ClusterError for a value that is never saved: the file was edited."""
        for name, is_right in (
            ("cluster_id", isinstance(self.cluster_id, str)),
            ("base_port", type(self.base_port) is int),
            ("node_ids", _is_list_of_ids(self.node_ids)),
            ("settings", isinstance(self.settings, dict) and all(isinstance(v, str) for v in self.settings.values())),
            ("voters", type(self.voters) is int),
            ("next_id", type(self.next_id) is int),
            ("metrics", type(self.metrics) is bool),
            ("secure", type(self.secure) is bool),
        ):
            if not is_right:
                raise ValueError(f"{name} cannot be {getattr(self, name)!r}")
        check_size(max(self.node_ids), self.base_port, metrics=self.metrics)

    def discard(self) -> None:
        """Remove a layout of which no node was started, so that another can be created in its place."""
        self.directory.joinpath("cluster.json").unlink()

    def write_files(self) -> None:
        """Write the missing files of the nodes."""
        if not self.secret_file.exists():
            self.write_secret()
        if self.secure:
            self._write_certificates()
            self.logins.make_missing()
        for node_id in self.node_ids:
            # Its logs have keys of users, and what only some may read.
            self.node_directory(node_id).mkdir(mode=0o700 if self.secure else 0o777, exist_ok=True)
            self.data_directory(node_id).mkdir(parents=True, exist_ok=True)
            config_file = self.config_file(node_id)
            if not config_file.exists():
                write_private(config_file, self.server_properties(node_id))

    def _write_certificates(self) -> None:
        from minikafka.chaos.authority import CLIENT

        hosts = (HOST, "localhost")
        self.authority.issue_missing({_node_name(node_id): hosts for node_id in self.node_ids} | {CLIENT: ()})

    @property
    def authority(self) -> Authority:
        """Who vouches for nodes and clients of a secure cluster."""
        from minikafka.chaos.authority import Authority

        return Authority(self.security_directory)

    @property
    def logins(self) -> Logins:
        """Who may log in to a secure cluster."""
        from minikafka.chaos.logins import Logins

        return Logins(self.security_directory, self.authority.certificate_file)

    def write_secret(self) -> str:
        """A new secret. Returns it."""
        return write_new_secret(self.secret_file)

    @property
    def option(self) -> str:
        """The option for this cluster on a command line; empty for the default one."""
        return option_of(self.directory)

    def command(self, words: str) -> str:
        """A command line for this cluster, to be shown to the user."""
        return command(words, self.directory)

    def client_port(self, node_id: int) -> int:
        """The node's client port."""
        return self.base_port + node_id - 1

    def ports(self, node_id: int) -> tuple[int, int, int]:
        """The node's client, replication and controller port."""
        client_port = self.client_port(node_id)
        return client_port, client_port + REPLICATION_PORT_OFFSET, client_port + CONTROLLER_PORT_OFFSET

    def metrics_port(self, node_id: int) -> int | None:
        """The port at which the node serves metrics, if it does."""
        return self.client_port(node_id) + METRICS_PORT_OFFSET if self.metrics else None

    @property
    def metrics_urls(self) -> list[str]:
        """The URLs of the nodes' metrics."""
        ports = (self.metrics_port(node_id) for node_id in self.node_ids)
        return [f"http://{HOST}:{port}/metrics" for port in ports if port is not None]

    @property
    def voter_ids(self) -> list[int]:
        """The nodes of the controller quorum."""
        return self.node_ids[: self.voters or None]

    @property
    def bootstrap_servers(self) -> str:
        """Bootstrap servers for clients."""
        return ",".join(f"{HOST}:{self.client_port(node_id)}" for node_id in self.node_ids)

    @property
    def security(self) -> Security:
        """How a client connects that may do everything; to a secure cluster it logs in."""
        from minikafka.client.security import PLAIN

        if not self.secure:
            return PLAIN
        from minikafka.chaos.logins import ADMIN

        return self.security_of(ADMIN)

    def security_of(self, user: str) -> Security:
        """How a client connects as one of the users that were made. Raises ClusterError where there are none."""
        if not self.secure:
            raise ClusterError(f"nobody is asked who he is here, so {user!r} is no user; a secure cluster has users")
        return self.logins.security(user)

    def entrance(self) -> Entrance:
        """How probes get in. Where nobody logs in, no client needs to be imported."""
        from minikafka.chaos.probe import Entrance

        return Entrance(self.security.context(), self.security.sasl()) if self.secure else Entrance()

    def nodes_tls(self) -> ssl.SSLContext | None:
        """What to connect with to the listeners of nodes, which ask for a certificate; None: as it is."""
        return self.authority.security.context() if self.secure else None

    @property
    def security_directory(self) -> Path:
        """The certificates and passwords of a secure cluster."""
        return self.directory / "security"

    @property
    def client_properties_file(self) -> Path:
        """What a client in Java is given for a secure cluster, and our verbs by ``--command-config``."""
        from minikafka.chaos.logins import ADMIN

        return self.logins.properties_file(ADMIN)

    @property
    def secret_file(self) -> Path:
        """The file with the cluster secret."""
        return self.directory / "cluster.secret"

    @property
    def lock_file(self) -> Path:
        """Locked while nodes are started, so that two commands do not start one node twice."""
        return self.directory / "lock"

    def node_directory(self, node_id: int) -> Path:
        """The directory of one node."""
        return self.directory / f"node-{node_id}"

    def data_directory(self, node_id: int) -> Path:
        """The node's log directory."""
        return self.node_directory(node_id) / "data"

    def config_file(self, node_id: int) -> Path:
        """The node's configuration."""
        return self.node_directory(node_id) / "server.properties"

    def log_file(self, node_id: int) -> Path:
        """The output of the node."""
        return self.node_directory(node_id) / "broker.log"

    def pid_file(self, node_id: int) -> Path:
        """The process id of the node's last start."""
        return self.node_directory(node_id) / "pid"

    def log_start_file(self, node_id: int) -> Path:
        """The length of the node's log at its last start: later lines are of that run."""
        return self.node_directory(node_id) / "log-start"

    def server_properties(self, node_id: int) -> str:
        """The text of the node's configuration file."""
        secured = security_settings(self, node_id) if self.secure else {}
        rows = identity(self, node_id) | replication_defaults(len(self.voter_ids)) | secured | self.settings
        head = f"# Node {node_id} of a local cluster; edit it freely, then: minikafka cluster restart {node_id}\n"
        return head + "".join(f"{name}={escaped(value)}\n" for name, value in rows.items())


def write_new_secret(path: Path) -> str:
    """A secret of a cluster, at random. Returns it."""
    secret = secrets.token_hex(32)
    write_private(path, f"{secret}\n")
    return secret


def write_private(path: Path, text: str) -> None:
    """Whole or not at all, and for its owner alone to read."""
    unfinished = path.with_name(f"{path.name}.tmp")
    descriptor = os.open(unfinished, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    unfinished.rename(path)


def escaped(value: str) -> str:
    """A value as a line of properties has it. Java reads a file of these as Latin-1, whatever it is in."""
    text = value.replace("\\", "\\\\").replace("\n", "\\n")
    return _NOT_ASCII.sub(lambda found: "".join(f"\\u{unit:04x}" for unit in _java_units(found[0])), text)


def _java_units(text: str) -> memoryview:
    return memoryview(text.encode("utf-16", "surrogatepass")).cast("H")[1:]  # without the mark of its order


def identity(layout: ClusterLayout, node_id: int) -> dict[str, str]:
    """The settings with the node's identity and the others' addresses."""
    client, replication, controller = layout.ports(node_id)
    metrics_port = layout.metrics_port(node_id)
    return {
        "node.id": str(node_id),
        "process.roles": "broker,controller" if node_id in layout.voter_ids else "broker",
        "cluster.id": layout.cluster_id,
        "cluster.secret.file": str(layout.secret_file),
        "fault.injection.enable": "true",
        "log.dirs": str(layout.data_directory(node_id)),
        "listeners": f"CLIENT://{HOST}:{client},REPLICATION://{HOST}:{replication},CONTROLLER://{HOST}:{controller}",
        "controller.quorum.voters": ",".join(f"{other}@{HOST}:{layout.ports(other)[2]}" for other in layout.voter_ids),
        **({} if metrics_port is None else {"metrics.listener": f"{HOST}:{metrics_port}"}),
    }


def security_settings(layout: ClusterLayout, node_id: int) -> dict[str, str]:
    """The settings of a node of a secure cluster: TLS, between nodes with certificates of both ends; clients log in."""
    from minikafka.chaos.logins import ADMIN
    from minikafka.config.security import STANDARD_AUTHORIZER

    authority = layout.authority
    return {
        "listener.security.protocol.map": "CLIENT:SASL_SSL,REPLICATION:SSL,CONTROLLER:SSL",
        "ssl.keystore.location": str(authority.file_of(_node_name(node_id))),
        "ssl.truststore.location": str(authority.certificate_file),
        "initial.scram.credentials.file": str(layout.logins.credentials_file),
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": f"User:{ADMIN}",
    }


def _node_name(node_id: int) -> str:
    return f"node-{node_id}"


def replication_defaults(brokers: int) -> dict[str, str]:
    """As safe as the number of brokers allows: at most three copies, and two of them for an acknowledgement."""
    copies = str(min(3, brokers))
    return {
        "default.replication.factor": copies,
        "min.insync.replicas": str(min(2, brokers)),
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
    }


def new_cluster_id() -> str:
    """A random cluster id in Kafka's form: a UUID in URL-safe base64, 22 characters, not starting with a dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def check_brokers(brokers: int) -> None:
    """Raise ClusterError unless a cluster may have that many."""
    if not 1 <= brokers <= BROKERS_MAX:
        raise ClusterError(f"a cluster has 1 to {BROKERS_MAX} brokers, not {brokers}")


def check_size(brokers: int, base_port: int, *, metrics: bool) -> None:
    """Raise ClusterError unless that many brokers fit above that port."""
    check_brokers(brokers)
    port_max = base_port + (METRICS_PORT_OFFSET if metrics else CONTROLLER_PORT_OFFSET) + brokers - 1
    if base_port < 1 or port_max > 65535:
        raise ClusterError(f"--base-port {base_port} needs the ports up to {port_max}; choose 1024 to 65000")


def _is_list_of_ids(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(type(one) is int and 0 < one <= BROKERS_MAX for one in value)
