"""The nodes of docker-compose.yml, secure or not, and of ``docker run`` as plain processes.

They get the environment, the entry point and the configuration file of the containers. An address of 127.0.0.0/8 stands
for each container. The published ports of a container are its own here, for there is nobody to forward them.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import yaml
from live_cluster import PATIENCE_S, eventually

import minikafka

ROOT = Path(minikafka.__file__).parent.parent
COMPOSE, SECURE = "docker-compose.yml", "docker-compose.secure.yml"
HEALTHY = ROOT / "docker/healthy"
NETWORK = f"127.{random.randrange(64, 128)}.{random.randrange(256)}"
PLAIN = {name: value for name, value in os.environ.items() if not name.startswith("MINIKAFKA_")}


class Container:
    """A container's address, environment and process, and what its health check is given."""

    def __init__(self, address: str, environment: dict[str, str], directory: Path, checked: Sequence[str] = ()) -> None:
        self.address = address
        self.environment = environment
        self._checked = checked
        (docker_file,) = (line for line in (ROOT / "Dockerfile").read_text().splitlines() if line.startswith("ENTRY"))
        _python, *words = json.loads(docker_file.removeprefix("ENTRYPOINT "))
        properties = directory / "server.properties"
        written = (ROOT / "docker/server.properties").read_text()
        properties.write_text(re.sub(r"0\.0\.0\.0|127\.0\.0\.1", address, written))
        words[words.index("/etc/minikafka/server.properties")] = str(properties)
        self._command = [sys.executable, *words, "--set", f"log.dirs={directory / 'data'}", "--until-eof"]
        self.log = directory / "log"

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        """Its process, which ends with the test."""
        environment = {**PLAIN, "PYTHONPATH": str(ROOT), **self.environment}
        with (
            self.log.open("wb") as log,
            subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment) as process,
        ):
            try:
                yield process
            finally:
                process.kill()

    def is_healthy(self) -> bool:
        """What the health check says."""
        script = HEALTHY.read_text().replace("127.0.0.1", self.address)
        command = ["bash", "-c", script, "healthy", *self._checked]
        check = subprocess.run(command, env={**PLAIN, **self.environment}, capture_output=True, check=False)
        return check.returncode == 0


def compose_containers(directory: Path, *files: str) -> Iterator[Container]:
    """One for each node. The volume that nodes share is a directory, too."""
    layers = [yaml.safe_load((ROOT / file).read_text())["services"] for file in files]
    addresses = {name: f"{NETWORK}.{name.removeprefix('node-')}" for name in layers[0]}
    for name in addresses:
        own = directory / name
        own.mkdir()
        environment, checked = {}, ["CMD", "healthy"]
        for service in (layer[name] for layer in layers):
            environment |= service["environment"]
            checked = service.get("healthcheck", {}).get("test", checked)
        for variable, value in environment.items():
            value = re.sub(r"\$\{\w+:-(.*)\}", r"\1", str(value))
            value = value.replace("/var/lib/minikafka/security", str(directory / "security"))
            value = value.replace("127.0.0.1:9404", f"{addresses[name]}:9404")
            value = re.sub(r"node-\d(?=:)", lambda match: addresses[match[0]], value)
            value = re.sub(r"0\.0\.0\.0", addresses[name], value)
            environment[variable] = re.sub(r"127\.0\.0\.1:\d+", f"{addresses[name]}:19092", value)
        yield Container(addresses[name], environment, own, checked[2:])


def minikafka_says(*words: str, given: bytes = b"", **variables: str) -> bytes:
    """What the command line prints, with these variables in its environment."""
    command = [sys.executable, "-m", "minikafka", *words]
    done = subprocess.run(
        command,
        input=given,
        capture_output=True,
        env={**PLAIN, "PYTHONPATH": str(ROOT), **variables},
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode() + done.stdout.decode()
    return done.stdout


def brokers(servers: str) -> dict[int, str]:
    """The brokers and their addresses, as the listener of these servers tells them."""
    status = json.loads(minikafka_says("cluster", "status", "-b", servers, "--json"))
    return {row["broker_id"]: row["address"] for row in status["brokers"]}


@pytest.mark.long
def test_the_nodes_of_compose_serve_other_containers_and_the_host(tmp_path: Path) -> None:
    with ExitStack() as stack:
        containers = list(compose_containers(tmp_path, COMPOSE))
        processes = [stack.enter_context(container.running()) for container in containers]
        eventually(lambda: all(each.is_healthy() for each in containers), "the containers to be healthy")
        inside, outside = (",".join(f"{each.address}:{port}" for each in containers) for port in (9092, 19092))
        for servers in (inside, outside):
            assert ",".join(brokers(servers).values()) == servers
        minikafka_says("topic", "create", "orders", "-b", inside)
        minikafka_says("produce", "orders", "-b", inside, given=b"first\n")
        (partition,) = json.loads(minikafka_says("topic", "describe", "orders", "-b", outside, "--json"))
        assert len(partition["replicas"]) == 3
        processes[partition["leader"] - 1].kill()
        minikafka_says("produce", "orders", "-b", outside, given=b"second\n")
        consumed = minikafka_says(
            "consume", "orders", "-b", inside, "--from-beginning", "--count", "2", "--group", "readers"
        )
        assert consumed == b"first\nsecond\n"
        left = [node for node in (0, 1, 2) if node != partition["leader"] - 1]
        assert [containers[node].is_healthy() for node in left] == [True, True]
        assert not containers[partition["leader"] - 1].is_healthy()
        processes[left[0]].kill()
        # It has metadata still, and in these it is live.
        eventually(lambda: not containers[left[1]].is_healthy(), "the node without a quorum to be unhealthy")


@pytest.mark.long
def test_secure_nodes_of_compose_serve_who_logs_in_and_has_the_right(tmp_path: Path) -> None:
    security = tmp_path / "security"
    names = '"127.0.0.1"', f'"{NETWORK}." + node.removeprefix("node-")'
    script = (ROOT / "docker/security").read_text().replace(*names)
    command = [sys.executable, "-c", script, str(security), "3"]
    subprocess.run(command, env={**PLAIN, "PYTHONPATH": str(ROOT)}, check=True)
    with ExitStack() as stack:
        containers = list(compose_containers(tmp_path, COMPOSE, SECURE))
        for container in containers:
            stack.enter_context(container.running())
        eventually(lambda: all(each.is_healthy() for each in containers), "the containers to be healthy")
        inside, outside = (",".join(f"{each.address}:{port}" for each in containers) for port in (9092, 19092))
        in_a_container = containers[0].environment
        assert in_a_container["MINIKAFKA_BOOTSTRAP_SERVERS"] == inside
        minikafka_says("produce", "orders", given=b"first\n", **in_a_container)

        def consume() -> bytes:
            words = ("consume", "orders", "--from-beginning", "--count", "1", "--group", "readers")
            return minikafka_says(*words, "-b", outside, MINIKAFKA_COMMAND_CONFIG=str(security / "user.properties"))

        with pytest.raises(AssertionError, match="AUTHORIZATION_FAILED"):
            consume()
        rights = ("--allow-principal", "User:user", "--consumer", "--topic", "orders", "--group", "readers")
        minikafka_says("acl", "add", *rights, **in_a_container)
        assert consume() == b"first\n"
        with pytest.raises(AssertionError, match="TLS"):
            minikafka_says("topic", "list", "-b", outside)
        passwords = [security.joinpath(f"{user}.password").read_bytes() for user in ("admin", "user")]
        logged = b"".join(each.log.read_bytes() for each in containers)
        assert not any(password in logged for password in passwords)


def test_a_container_of_docker_run_is_a_whole_cluster(tmp_path: Path) -> None:
    alone = Container(f"{NETWORK}.9", {}, tmp_path)
    with alone.running():
        eventually(alone.is_healthy, "the container to be healthy")
        servers = f"{alone.address}:9092"
        assert brokers(servers) == {1: servers}
        at_it = minikafka_says("cluster", "status", "--json", MINIKAFKA_BOOTSTRAP_SERVERS=servers)
        assert json.loads(at_it)["brokers"][0]["address"] == servers
        minikafka_says("produce", "orders", "-b", servers, given=b"first\n")
        consumed = minikafka_says(
            "consume", "orders", "-b", servers, "--from-beginning", "--count", "1", "--group", "g"
        )
        assert consumed == b"first\n"


@pytest.mark.parametrize("words", [["1", "1"], ["x", "1"]])
def test_the_health_check_fails_where_nobody_answers(words: list[str]) -> None:
    assert subprocess.run(["bash", HEALTHY, *words], capture_output=True, check=False).returncode == 1
