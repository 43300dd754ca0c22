"""What a cluster of containers asks Docker for. Here a script answers in its place."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from compose_file import FILE, as_config_prints

from minikafka.chaos.compose_cluster import ComposeCluster
from minikafka.chaos.layout import ClusterError, NodeDownError

SCRIPT = """#!/bin/sh
cd "$(dirname "$0")" || exit 1
echo "$*" >> asked
case "$1" in
    ps) case "$2" in --quiet) cat ps-quiet ;; *) cat ps ;; esac ;;
    compose) cat model ;;
    inspect) echo minikafka sha256:image ;;
    cp) case "$2" in *:*) mkdir "$3" ;; esac ;;
esac
[ ! -e "$1.error" ] || { cat "$1.error" >&2; exit 1; }
"""
DOWN = "compose --project-name minikafka-chaos down --volumes --remove-orphans"


class Docker:
    """The script, what it was asked for, and what it answers."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        script = directory / "docker"
        script.write_text(SCRIPT)
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        (directory / "model").write_text(json.dumps(as_config_prints(FILE.read_text(encoding="utf-8"))))
        (directory / "ps-quiet").write_text("")
        self.has(*["running"] * 3)

    def has(self, *states: str, cut_off: int | None = None) -> None:
        """The states of the three containers, and which has no network."""
        rows = [
            f"minikafka-chaos-node-{number}\t{state}\t{'' if number == cut_off else 'net'}\n"
            for number, state in enumerate(states, start=1)
        ]
        (self.directory / "ps").write_text("".join(rows))

    def fails(self, verb: str, why: str) -> None:
        """It says why on standard error."""
        (self.directory / f"{verb}.error").write_text(why)

    def asked(self) -> list[str]:
        """All but how the containers are, since the last time."""
        path = self.directory / "asked"
        lines = path.read_text().splitlines()
        path.unlink()
        return [line.replace("minikafka-chaos-node-", "#") for line in lines if not line.startswith("ps ")]


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Docker:
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")
    return Docker(directory)


@pytest.fixture
def cluster(docker: Docker, tmp_path: Path) -> ComposeCluster:
    cluster = ComposeCluster.create(tmp_path / "cluster", {"log.retention.ms": "1"})
    docker.asked()
    return cluster


def test_a_new_cluster_is_a_project_of_its_own(docker: Docker, tmp_path: Path) -> None:
    cluster = ComposeCluster.create(tmp_path / "cluster", {"log.retention.ms": "1"})
    file = tmp_path / "cluster" / "compose.json"
    assert docker.asked() == [
        "compose --project-name minikafka-chaos config --format json",
        DOWN,
        f"compose --project-name minikafka-chaos --file {file} up --no-start --build node-1 node-2 node-3",
    ]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    node = json.loads(file.read_text())["services"]["node-3"]
    assert node["environment"]["MINIKAFKA_LOG_RETENTION_MS"] == "1"
    assert node["environment"]["MINIKAFKA_CLUSTER_SECRET"] == cluster.layout.secret_file.read_text().strip()
    assert node["ports"][0]["published"] == str(cluster.layout.client_port(3))


def test_a_cluster_that_cannot_be_made_is_told_why(
    docker: Docker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (docker.directory / "ps-quiet").write_text("an-id\n")
    with pytest.raises(ClusterError, match=f"another round is running, .*; end its containers with: docker {DOWN}"):
        ComposeCluster.create(tmp_path / "cluster", {})
    assert DOWN not in docker.asked()
    docker.fails("compose", "no configuration file provided: not found\n")
    with pytest.raises(
        ClusterError, match=r"docker compose: no configuration file provided: not found; run it where docker-c"
    ):
        ComposeCluster.create(tmp_path / "cluster", {})
    docker.fails("compose", "docker: unknown command: docker compose\n\nRun 'docker --help' for more information\n")
    with pytest.raises(ClusterError, match=r"docker compose: docker: unknown command: docker compose$"):
        ComposeCluster.create(tmp_path / "cluster", {})
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClusterError, match="docker was not found; install Docker with its compose plugin"):
        ComposeCluster.create(tmp_path / "cluster", {})


def test_faults_are_commands_of_docker(docker: Docker, cluster: ComposeCluster) -> None:
    cluster.kill(1, 3)
    cluster.pause(2)
    cluster.isolate(2, [1, 3])
    cluster.rejoin(2, [1, 3])
    assert docker.asked() == [
        "kill #1 #3",
        "pause #2",
        "network disconnect minikafka-chaos_default #2",
        "network connect --alias node-2 minikafka-chaos_default #2",
    ]
    docker.has("exited", "paused", "running")
    cluster.spawn(1, 2, 3)
    cluster.resume(2, 3)
    assert docker.asked() == ["start #1", "unpause #2"]
    assert not cluster.stop_node(2)
    assert docker.asked() == ["unpause #2", "stop -t 15 #2", "inspect --format {{.State.ExitCode}} #2"]


def test_who_is_paused_or_cut_off_does_not_answer(docker: Docker, cluster: ComposeCluster) -> None:
    docker.has("running", "paused", "exited")
    assert list(cluster.running()) == [1, 2]
    assert cluster.responsive() == [1]
    docker.has("running", "running", "created", cut_off=1)
    assert list(cluster.running()) == [1, 2]
    assert cluster.responsive() == [2]


def test_a_node_that_ended_is_told_apart_from_what_docker_cannot_do(docker: Docker, cluster: ComposeCluster) -> None:
    docker.has("running", "exited", "running")
    with pytest.raises(NodeDownError, match="node 2 is down"):
        cluster.kill(2)
    with pytest.raises(ClusterError, match="node 4 not found; the nodes of this cluster are 1, 2, 3"):
        cluster.kill(4)
    docker.fails("kill", "Error response from daemon: Cannot kill container: x: Container 0a1b is not running\n")
    with pytest.raises(NodeDownError, match=r"docker kill: Error response .* is not running"):
        cluster.kill(3)
    docker.fails("pause", "Cannot connect to the Docker daemon. Is the docker daemon running?\n")
    with pytest.raises(ClusterError, match="docker pause: Cannot connect") as caught:
        cluster.pause(3)
    assert not isinstance(caught.value, NodeDownError)


def test_a_container_that_cannot_be_frozen_now_is_frozen_later(docker: Docker, cluster: ComposeCluster) -> None:
    docker.fails("pause", "OCI runtime pause failed: unable to freeze: unknown\n")
    with pytest.raises(ClusterError, match="docker pause: OCI runtime pause failed"):
        cluster.pause(1)
    assert docker.asked() == ["pause #1"] * 10
    docker.fails("pause", "OCI runtime pause failed: it is not set up\n")
    with pytest.raises(ClusterError, match="it is not set up"):
        cluster.pause(1)
    assert docker.asked() == ["pause #1"]


def test_files_are_copied_out_while_nothing_changes_them(docker: Docker, cluster: ComposeCluster) -> None:
    docker.has("running", "exited", "exited")
    cluster.fetch(1, 2)
    directory = cluster.layout.directory
    assert docker.asked() == [
        "logs #1",
        "pause #1",
        f"cp #1:/var/lib/minikafka/data {directory}/node-1/data",
        "logs #2",
        f"cp #2:/var/lib/minikafka/data {directory}/node-2/data",
    ]


def test_files_are_put_back_for_the_user_of_the_container(docker: Docker, cluster: ComposeCluster) -> None:
    cluster.put_back(2)
    assert docker.asked() == [
        f"cp {cluster.layout.directory}/node-2/data/. #2:/var/lib/minikafka/data",
        "inspect --format {{.Config.User}} {{.Image}} #2",
        "run --rm --user 0 --network none --volumes-from #2 --entrypoint chown sha256:image "
        "--recursive minikafka /var/lib/minikafka/data",
    ]


def test_at_the_end_files_stay_and_all_else_goes(docker: Docker, cluster: ComposeCluster) -> None:
    docker.has("exited", "exited", "exited")
    cluster.end()
    asked = docker.asked()
    assert [line.split()[0] for line in asked] == [*["logs", "cp"] * 3, "compose"]
    assert asked[-1] == DOWN
    docker.fails("compose", "none is left\n")
    cluster.end()  # once
    with pytest.raises(ClusterError, match="this cluster has ended"):
        cluster.spawn(1)
