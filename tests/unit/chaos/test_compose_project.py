"""The project for chaos that is made of docker-compose.yml."""

from __future__ import annotations

from pathlib import Path

import pytest
from compose_file import FILE, as_config_prints

from minikafka.chaos.compose_project import Model, adapted, container, networks, services
from minikafka.chaos.layout import ClusterError, ClusterLayout
from minikafka.config import BrokerConfig, environment_settings

LAYOUT = ClusterLayout(Path("/chaos"), "its-id", 20_000, [1, 2, 3])


@pytest.fixture
def model() -> Model:
    return as_config_prints(FILE.read_text(encoding="utf-8"))


def test_nodes_are_the_services_with_an_id(model: Model) -> None:
    model["services"]["app"] = {"image": "app"}
    assert services(model) == {1: "node-1", 2: "node-2", 3: "node-3"}
    assert networks(model, "node-2") == ["minikafka-chaos_default"]


def test_a_node_has_the_ports_and_settings_of_the_layout(model: Model) -> None:
    before = model["services"]["node-2"]
    changed = adapted(model, LAYOUT, {"group.min.session.timeout.ms": "1000"}, "its-secret")["services"]["node-2"]
    assert changed["container_name"] == container("node-2")
    assert [(port["host_ip"], port["published"], port["target"]) for port in changed["ports"]] == [
        ("127.0.0.1", "20001", 19092),
        ("127.0.0.1", "20201", 9292),
    ]
    settings = environment_settings(changed["environment"])
    assert settings["advertised.listeners"].split(",")[:2] == ["CLIENT://node-2:9092", "HOST://127.0.0.1:20001"]
    own = {"cluster.id": "its-id", "cluster.secret": "its-secret", "fault.injection.enable": "true"}
    own |= {"group.min.session.timeout.ms": "1000"}
    assert own.items() <= settings.items()
    BrokerConfig(settings)  # nothing is wrong with it
    kept = environment_settings(before["environment"]).keys() - own.keys() - {"advertised.listeners"}
    assert all(settings[name] == environment_settings(before["environment"])[name] for name in kept)
    assert (changed["volumes"], changed["image"]) == (["node-2:/var/lib/minikafka/data"], "minikafka")


def test_what_the_file_does_not_say_is_left_out(model: Model) -> None:
    """Compose 2.12 prints nulls, and refused them: services.node-1.command must be a string."""
    for name in ("node-1", "app"):
        model["services"][name] = model["services"]["node-1"] | {"command": None, "entrypoint": None}
    model["services"]["app"]["environment"] = {"PASSED_ON": None}
    changed = adapted(model, LAYOUT, {}, "its-secret")["services"]
    assert not [service for service in changed.values() if None in service.values()]
    assert changed["app"]["environment"] == {"PASSED_ON": None}


def test_the_model_that_was_given_stays(model: Model) -> None:
    adapted(model, LAYOUT, {}, "its-secret")
    assert model == as_config_prints(FILE.read_text(encoding="utf-8"))


def test_a_file_that_will_not_do_is_told_why(model: Model) -> None:
    with pytest.raises(ClusterError, match="no service of the compose file has a MINIKAFKA_NODE_ID; run it where"):
        services({"services": {"app": {"image": "app"}}})
    node = model["services"]["node-2"]
    del node["environment"]["MINIKAFKA_LISTENERS"]
    with pytest.raises(ClusterError, match="MINIKAFKA_LISTENERS of service node-2 has no CONTROLLER"):
        adapted(model, LAYOUT, {}, "")
    del node["ports"]
    with pytest.raises(ClusterError, match="service node-2 publishes no port for clients on this machine"):
        adapted(model, LAYOUT, {}, "")
