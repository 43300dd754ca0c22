"""The project of a compose file, made into one for chaos: with ports, an id, a secret and settings of its own. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from minikafka.chaos.layout import HOST, ClusterError, ClusterLayout

Model = dict[str, Any]
"""A compose file as ``docker compose config --format json`` prints it."""

PROJECT: Final = "minikafka-chaos"
"""Not the project of the file: its containers and volumes are the user's."""
NODE_ID: Final = "MINIKAFKA_NODE_ID"
_CONTROLLER: Final = re.compile(r"\bCONTROLLER://[^,]*:(\d+)")


def services(model: Model) -> dict[int, str]:
    """The services that are nodes, by their ids."""
    found = {service.get("environment", {}).get(NODE_ID): name for name, service in model["services"].items()}
    nodes = {int(node_id): name for node_id, name in found.items() if node_id is not None}
    if not nodes:
        raise ClusterError(f"no service of the compose file has a {NODE_ID}; run it where docker-compose.yml is")
    return dict(sorted(nodes.items()))


def networks(model: Model, service: str) -> list[str]:
    """The networks of a service, as Docker calls them."""
    return [model["networks"][name]["name"] for name in model["services"][service]["networks"]]


def container(service: str) -> str:
    """The name of its container."""
    return f"{PROJECT}-{service}"


def adapted(model: Model, layout: ClusterLayout, settings: Mapping[str, str], secret: str) -> Model:
    """The model with this layout, and nodes that take commands for faults on their controller ports.

    What a file says of its nodes otherwise, stays.
    """
    changed = {name: _said(service) for name, service in model["services"].items()}
    for node_id, name in services(model).items():
        service = changed[name]
        client_port, _, controller_port = layout.ports(node_id)
        variables: dict[str, str] = service["environment"]
        published, target = _published(name, service)
        controller = _CONTROLLER.search(variables.get("MINIKAFKA_LISTENERS", ""))
        if controller is None:
            raise ClusterError(f"MINIKAFKA_LISTENERS of service {name} has no CONTROLLER")
        advertised = variables.get("MINIKAFKA_ADVERTISED_LISTENERS", "")
        own = {
            "cluster.id": layout.cluster_id,
            "cluster.secret": secret,
            "fault.injection.enable": "true",
            "advertised.listeners": re.sub(rf":{published}(?=,|$)", f":{client_port}", advertised),
            **settings,
        }
        changed[name] = service | {
            "container_name": container(name),
            "environment": variables | {_variable(setting): value for setting, value in own.items()},
            "ports": [_port(client_port, target), _port(controller_port, int(controller[1]))],
        }
    return model | {"services": changed}


def _said(service: Model) -> Model:
    """Without what the file does not say: older versions print ``"command": null``, and refuse to read that."""
    return {key: value for key, value in service.items() if value is not None}


def _published(name: str, service: Model) -> tuple[str, int]:
    """The first port that is published: of this machine, and of the container."""
    for port in service.get("ports", ()):
        if port.get("published"):
            return str(port["published"]), port["target"]
    raise ClusterError(f"service {name} publishes no port for clients on this machine")


def _port(published: int, target: int) -> Model:
    return {"host_ip": HOST, "published": str(published), "target": target, "protocol": "tcp", "mode": "ingress"}


def _variable(setting: str) -> str:
    return "MINIKAFKA_" + setting.upper().replace(".", "_")
