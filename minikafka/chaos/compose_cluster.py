"""A cluster of containers: the nodes of the compose file of the current directory, as a project of their own.

It is broken by what Docker has for it, ``docker kill``, ``pause`` and ``network disconnect``; single links, clocks,
disks and requests by commands to the nodes, as in any other cluster. Files and logs are copied to where the layout has
them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from minikafka.chaos.compose_project import PROJECT, Model, adapted, container, networks, services
from minikafka.chaos.layout import ClusterError, ClusterLayout, NodeDownError, new_cluster_id
from minikafka.chaos.managed import STOP_TIMEOUT_S, ManagedCluster
from minikafka.chaos.ports import free_base_port

DATA: Final = "/var/lib/minikafka/data"
DOWN: Final = ("compose", "--project-name", PROJECT, "down", "--volumes", "--remove-orphans")
_TIMEOUT_S: Final = 120.0
_BUILD_TIMEOUT_S: Final = 1_800.0
_FREEZE_TRIES: Final = 10
_KILLED: Final = "137"
_NO_FILE: Final = "no configuration file provided"
_LOG_LINES: Final = "15"


class Container(NamedTuple):
    """One that was made, as Docker sees it."""

    state: str
    """created, running, paused, exited, ..."""
    networks: str
    """That it is connected to; empty: it is cut off."""

    @property
    def paused(self) -> bool:
        """It answers nothing."""
        return self.state == "paused" or not self.networks


class ComposeCluster(ManagedCluster):
    """The nodes of one layout as containers. They outlive this process, if it is killed."""

    patience_s = 60.0  # a container takes seconds to start, on a busy machine many

    def __init__(self, layout: ClusterLayout, model: Model) -> None:
        super().__init__(layout)
        self._model = model
        self._services = services(model)
        self._started: set[int] = set()

    @classmethod
    def create(cls, directory: Path, settings: dict[str, str]) -> ComposeCluster:
        """A new cluster from the compose file of the current directory, or of COMPOSE_FILE. No node is started.

        Its image is built, as far as it is not what the file says.
        """
        try:
            model = json.loads(docker("compose", "--project-name", PROJECT, "config", "--format", "json"))
        except ClusterError as error:
            remedy = "run it where docker-compose.yml is, or name that in COMPOSE_FILE"
            raise ClusterError(f"{error}; {remedy}" if _NO_FILE in str(error) else str(error)) from None
        node_ids = list(services(model))
        layout = ClusterLayout(directory.resolve(), new_cluster_id(), free_base_port(max(node_ids)), node_ids)
        if docker("ps", "--quiet", *_OF_PROJECT):
            raise ClusterError(
                f"another round is running, or was killed; end its containers with: docker {' '.join(DOWN)}"
            )
        directory.mkdir(parents=True)
        cluster = cls(layout, adapted(model, layout, settings, layout.write_secret()))
        cluster._make()
        return cluster

    def _make(self) -> None:
        file = self.layout.directory / "compose.json"
        file.touch(mode=0o600)  # the secret is in it
        file.write_text(json.dumps(self._model, indent=2) + "\n")
        docker(*DOWN)  # what an earlier round left
        docker(
            *("compose", "--project-name", PROJECT, "--file", str(file)),
            *("up", "--no-start", "--build", *self._services.values()),
            timeout_s=_BUILD_TIMEOUT_S,
        )

    @property
    def image(self) -> str:
        """The id of the image of which the containers are."""
        name = self._name(self.node_ids[0])
        return docker("inspect", "--format", "{{.Image}}", name).strip()

    # --- looking ---

    def _containers(self) -> dict[int, Container]:
        lines = docker("ps", "--all", *_OF_PROJECT, "--format", "{{.Names}}\t{{.State}}\t{{.Networks}}").splitlines()
        seen = {name: Container(*rest) for name, *rest in (line.split("\t") for line in lines)}
        return {node_id: seen[name] for node_id in self.node_ids if (name := self._name(node_id)) in seen}

    def running(self) -> dict[int, Container]:
        """The containers of the nodes that are up or paused."""
        return {node_id: each for node_id, each in self._containers().items() if each.state in ("running", "paused")}

    def check_alive(self, node_id: int) -> None:
        """Raise ClusterError with the reason when a node that was started has ended."""
        if node_id in self._started and not self._is_up(node_id):
            name = self._name(node_id)
            raise ClusterError(f"node {node_id} ended; the end of its log:\n{_logs('--tail', _LOG_LINES, name)}")

    def remedy(self, command: str, call: str) -> str:
        """The call: the containers end with the round."""
        return call

    def _name(self, node_id: int) -> str:
        return container(self._services[node_id])

    # --- starting and ending ---

    def _spawn(self, node_ids: Iterable[int], started: list[int]) -> None:
        running = self.running()
        missing = [node_id for node_id in node_ids if node_id not in running]
        started += missing
        self._started |= {*missing}
        if missing:
            docker("start", *map(self._name, missing))

    def _kill_started(self, node_ids: Iterable[int]) -> None:
        self.kill(*(self.running().keys() & {*node_ids}))

    def kill(self, *node_ids: int) -> None:
        """SIGKILL to all of them; Docker waits until they are gone."""
        if node_ids:
            self._do("kill", *node_ids)

    def stop_node(self, node_id: int, timeout_s: float = STOP_TIMEOUT_S) -> bool:
        """Stop one node by SIGTERM. True when it was killed because it did not end in time."""
        self.resume(node_id)
        self._do("stop", node_id, options=("-t", f"{timeout_s:.0f}"))
        return docker("inspect", "--format", "{{.State.ExitCode}}", self._name(node_id)).strip() == _KILLED

    def end(self) -> None:
        """Kill every node, and remove everything but files and logs, which are copied."""
        if self._has_ended:
            return
        try:
            super().end()
            self.fetch(*self.node_ids)
        finally:
            docker(*DOWN)

    # --- breaking and mending ---

    def pause(self, *node_ids: int) -> None:
        """Docker freezes all processes of the container: they answer nothing, and do not see time pass."""
        for node_id in node_ids:
            self._freeze(node_id)

    def _freeze(self, node_id: int) -> None:
        """On a busy machine Docker may fail to freeze processes that come and go, say of the health check."""
        for left in reversed(range(_FREEZE_TRIES)):
            try:
                self._do("pause", node_id)
                return
            except ClusterError as error:
                if not left or "unable to freeze" not in str(error):
                    raise

    def resume(self, *node_ids: int) -> None:
        """Paused nodes go on as if nothing had happened."""
        paused = [node_id for node_id, each in self.running().items() if each.state == "paused"]
        if wanted := [node_id for node_id in node_ids if node_id in paused]:
            self._do("unpause", *wanted)

    def isolate(self, node: int, others: Iterable[int] | None = None) -> None:
        """Disconnect the container from its networks, and so from all others, whoever they are, and from clients."""
        for network in networks(self._model, self._services[node]):
            docker("network", "disconnect", network, self._name(node))

    def rejoin(self, node: int, others: Iterable[int]) -> None:
        """Connect the container again, under the name of its service."""
        service = self._services[node]
        for network in networks(self._model, service):
            docker("network", "connect", "--alias", service, network, self._name(node))

    def _do(self, verb: str, *node_ids: int, options: Iterable[str] = ()) -> None:
        running = self.running()
        for node_id in node_ids:
            self.check_node(node_id)
            if node_id not in running:
                raise self._down(node_id)
        try:
            docker(verb, *options, *map(self._name, node_ids))
        except ClusterError as error:
            if "is not running" in str(error):  # it ended meanwhile
                raise NodeDownError(str(error)) from None
            raise

    # --- files ---

    def fetch(self, *node_ids: int) -> None:
        """Copy files and logs of these nodes. One that is up is paused meanwhile, so that its files do not change."""
        responsive = self.responsive()
        for node_id in node_ids:
            data, name = self.layout.data_directory(node_id), self._name(node_id)
            shutil.rmtree(data, ignore_errors=True)
            data.parent.mkdir(exist_ok=True)
            self.layout.log_file(node_id).write_text(_logs(name))
            if node_id in responsive:
                self.pause(node_id)
            docker("cp", f"{name}:{DATA}", str(data))
            if node_id in responsive:
                self.resume(node_id)

    def put_back(self, node_id: int) -> None:
        """Copy its files into the container, for its user: by ``docker cp`` alone they would be those of root."""
        name = self._name(node_id)
        docker("cp", f"{self.layout.data_directory(node_id)}{os.sep}.", f"{name}:{DATA}")
        user, image = docker("inspect", "--format", "{{.Config.User}} {{.Image}}", name).split()
        as_root = ("run", "--rm", "--user", "0", "--network", "none", "--volumes-from", name, "--entrypoint", "chown")
        docker(*as_root, image, "--recursive", user, DATA)


_OF_PROJECT: Final = ("--filter", f"label=com.docker.compose.project={PROJECT}")


def docker(*words: str, timeout_s: float = _TIMEOUT_S) -> str:
    """What the command prints. ClusterError with what is wrong otherwise."""
    return _run(words, subprocess.PIPE, timeout_s)


def _logs(*words: str) -> str:
    """A node writes its log to standard output, and a traceback of Python's start to standard error."""
    return _run(("logs", *words), subprocess.STDOUT, _TIMEOUT_S)


def _run(words: Iterable[str], errors: int, timeout_s: float) -> str:
    command = ["docker", *words]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except FileNotFoundError:
        raise ClusterError("docker was not found; install Docker with its compose plugin") from None
    except subprocess.TimeoutExpired:
        raise ClusterError(f"{' '.join(command[:4])} did not end within {timeout_s:g} s") from None
    if done.returncode:
        lines = [line.strip() for line in (done.stderr or done.stdout).splitlines()]
        told = [line for line in lines if line and not line.startswith("Run 'docker")]
        raise ClusterError(f"{' '.join(command[:2])}: {told[-1] if told else f'exit code {done.returncode}'}")
    return done.stdout
