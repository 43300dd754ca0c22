"""The image: what its build is given (``.dockerignore`` leaves out whatever it does not name), and what it says."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

from minikafka.chaos.layout import ClusterLayout, security_settings
from minikafka.config import BrokerConfig, environment_settings, parse_properties
from minikafka.model import Endpoint

ROOT = Path(__file__).parents[3]


def copied() -> list[str]:
    """What the Dockerfile takes from this directory."""
    lines = [line.split() for line in (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()]
    copies = [words[1:-1] for words in lines if words[:1] == ["COPY"] and not words[1].startswith("--from")]
    return [source.removeprefix("./") for sources in copies for source in sources]


def test_what_is_copied_is_there() -> None:
    missing = [source for source in copied() if not (ROOT / source).exists()]
    assert not missing


def test_what_is_copied_is_given_to_the_build() -> None:
    nothing, *patterns = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert nothing == "*"
    given = [pattern.removeprefix("!") for pattern in patterns if pattern.startswith("!")]
    left_out = [source for source in copied() if not any(fnmatch(source.split("/")[0], pattern) for pattern in given)]
    assert not left_out, f".dockerignore keeps {left_out} from the build"


def test_all_of_the_package_is_copied() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]
    parts = {*wheel["wheel"]["packages"], *wheel["wheel"]["force-include"]}
    assert parts <= set(copied())


# -- what the image and the compose file say --------------------------------------------------------------------------


def instructions(name: str) -> list[str]:
    """What the Dockerfile's last stage has for an instruction, continued lines joined."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    last_stage = text[text.rindex("\nFROM ") :]
    return [line.removeprefix(f"{name} ") for line in last_stage.splitlines() if line.startswith(f"{name} ")]


def own_settings() -> dict[str, str]:
    return parse_properties((ROOT / "docker/server.properties").read_text(encoding="utf-8"))


def test_the_image_runs_the_settings_that_it_has() -> None:
    assert ["docker/server.properties", "/etc/minikafka/server.properties"] in [
        line.split() for line in instructions("COPY")
    ]
    (entry_point,) = instructions("ENTRYPOINT")
    assert json.loads(entry_point)[-2:] == ["--config", "/etc/minikafka/server.properties"]


def test_the_image_alone_keeps_its_data_in_the_volume_and_serves_the_exposed_port() -> None:
    config = BrokerConfig(own_settings())
    assert list(config.log_dirs) == instructions("VOLUME")
    assert config.listeners["CLIENT"] == Endpoint("0.0.0.0", int(instructions("EXPOSE")[0]))
    assert config.advertised["CLIENT"] == Endpoint("127.0.0.1", int(instructions("EXPOSE")[0]))


def test_one_variable_tells_clients_another_address() -> None:
    given = environment_settings({"MINIKAFKA_ADVERTISED_LISTENERS": "CLIENT://my-host:19092"})
    assert BrokerConfig(own_settings(), given).advertised["CLIENT"] == Endpoint("my-host", 19092)


def test_the_health_check_may_be_executed_and_starts_no_python() -> None:
    (check,) = instructions("HEALTHCHECK")
    assert check.endswith('CMD ["healthy"]')
    script = ROOT / "docker/healthy"
    assert script.stat().st_mode & 0o111
    code = [line for line in script.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    assert "python" not in "\n".join(code)


def test_the_image_has_no_pip() -> None:
    assert any(line.startswith("pip uninstall --yes pip") for line in instructions("RUN"))
    assert "venv --without-pip" in (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_the_image_has_what_the_package_its_metrics_and_its_certificates_need(tmp_path: Path) -> None:
    """The program of the build that lists the requirements is run, as the shell of the build reads it."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    (line,) = (line for line in text.splitlines() if line.startswith("RUN python -c"))
    lists = line.removeprefix("RUN ").partition("&&")[0]
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    python = tmp_path / "python"
    python.symlink_to(sys.executable)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run(["sh", "-c", lists], cwd=tmp_path, env=environment, check=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [
        *project["dependencies"],
        *(need for extra in ("metrics", "secure") for need in project["optional-dependencies"][extra]),
    ]
    assert (tmp_path / "requirements.txt").read_text().splitlines() == wanted


def compose_services(file: str = "docker-compose.yml") -> dict[str, Any]:
    return yaml.safe_load((ROOT / file).read_text(encoding="utf-8"))["services"]  # type: ignore[no-any-return]


def test_the_command_line_in_a_container_asks_its_node() -> None:
    (variables,) = instructions("ENV")
    servers = dict(each.split("=", 1) for each in variables.split())["MINIKAFKA_BOOTSTRAP_SERVERS"]
    assert servers == f"127.0.0.1:{BrokerConfig(own_settings()).listeners['CLIENT'].port}"
    assert not environment_settings({"MINIKAFKA_BOOTSTRAP_SERVERS": servers})


def test_nodes_of_compose_are_published_where_they_say() -> None:
    services = compose_services()
    assert len(services) == 3
    for name, service in services.items():
        config = BrokerConfig(
            own_settings(), environment_settings({k: str(v) for k, v in service["environment"].items()})
        )
        assert f"node-{config.node_id}" == name
        assert config.voters[config.node_id] == config.advertised["CONTROLLER"] == Endpoint(name, 9292)
        assert config.advertised["CLIENT"] == Endpoint(name, config.listeners["CLIENT"].port)
        assert service["ports"] == [f"{config.advertised['HOST']}:{config.listeners['HOST'].port}"]
        assert service["volumes"] == [f"{name}:{config.log_dirs[0]}"]


def test_nodes_of_compose_keep_three_replicas_of_every_topic() -> None:
    """Also of those that a single node keeps once."""
    services = compose_services()
    for service in services.values():
        given = environment_settings({k: str(v) for k, v in service["environment"].items()})
        settings = own_settings() | given
        factors = {name: value for name, value in settings.items() if name.endswith("replication.factor")}
        assert len(factors) == 3
        assert set(factors.values()) == {"3"}


def test_secure_nodes_of_compose_are_as_secure_as_those_of_the_flag(tmp_path: Path) -> None:
    """TLS wherever they can be reached, users, rights, and a secret that is in no file of the repository."""
    secured = compose_services("docker-compose.secure.yml")
    script, directory, count = secured.pop("security")["entrypoint"]
    assert int(count) == len(secured)
    subprocess.run([sys.executable, ROOT / "docker" / script, tmp_path, count], check=True)
    flagged = ClusterLayout.create(tmp_path / "flagged", brokers=3, base_port=19092, settings={}, secure=True)
    same = ("authorizer.class.name", "super.users")
    for name, service in compose_services().items():
        variables = service["environment"] | secured[name]["environment"]
        given = environment_settings({k: str(v) for k, v in variables.items()})
        config = BrokerConfig(own_settings(), given)
        theirs = security_settings(flagged, config.node_id)
        assert {each: given[each] for each in same} == {each: theirs[each] for each in same}
        assert {each: config.security_protocol(each) for each in config.listeners} == {
            "CLIENT": "SASL_SSL", "HOST": "SASL_SSL", "REPLICATION": "SSL", "CONTROLLER": "SSL",
        }  # fmt: skip
        assert config.cluster_secret is None
        files = {
            config.ssl_keystore_location: f"{name}.pem",
            config.ssl_truststore_location: "ca.pem",
            config.initial_scram_credentials_file: "users",
            config.cluster_secret_file: "cluster.secret",
            variables["MINIKAFKA_COMMAND_CONFIG"]: "admin.properties",
        }
        assert list(files) == [f"{directory}/{each}" for each in files.values()]
        assert all(tmp_path.joinpath(each).stat().st_mode & 0o777 == 0o600 for each in files.values())
        assert config.metrics_listener is not None
        assert config.metrics_listener.host == "127.0.0.1"
        assert secured[name]["healthcheck"]["test"][2:] == ["--http", str(config.metrics_listener.port)]
        data, secrets = secured[name]["volumes"]
        assert data.partition(":")[2] == config.log_dirs[0]
        assert data not in service["volumes"], "whose cluster was made without users"
        assert secrets == f"security:{directory}:ro"


@pytest.mark.parametrize(("status", "is_healthy"), [("200 OK", True), ("503 Service Unavailable", False)])
def test_the_health_check_asks_by_http_where_clients_must_log_in(status: str, is_healthy: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as node:
        command = ["bash", str(ROOT / "docker/healthy"), "--http", str(node.getsockname()[1])]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as check:
            accepted, _ = node.accept()
            with accepted, accepted.makefile("rb") as asked:
                assert [asked.readline(), asked.readline()] == [b"GET /readyz HTTP/1.0\r\n", b"\r\n"]
                accepted.sendall(f"HTTP/1.1 {status}\r\n\r\n".encode())
            assert (check.wait(30) == 0) == is_healthy


# -- make up ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("runs", [False, True])
def test_make_up_names_a_port_that_is_taken_unless_by_itself(tmp_path: Path, runs: bool) -> None:
    docker = tmp_path / "docker"
    docker.write_text(f"#!/bin/sh\n[ $2 = ps ] && echo {'an-id' if runs else ''} || echo would run: $*\n")
    docker.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = ["make", "--no-print-directory", "-C", str(ROOT), "up", f"PORTS={port}"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if runs:
        ran, servers = done.stdout.splitlines()
        assert ran == "would run: compose up --build --detach --wait"
        published = [port for service in compose_services().values() for port in service["ports"]]
        assert servers.startswith(f"bootstrap.servers={','.join(port.rpartition(':')[0] for port in published)} (")
    else:
        assert done.returncode != 0
        assert done.stdout.startswith(f"port {port} is in use; stop what uses it: `minikafka cluster list`")
