"""Which cluster a verb talks to: what the command line names, before what the environment does."""

from __future__ import annotations

from pathlib import Path

import pytest

from minikafka.chaos.layout import ClusterLayout
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.cli.options import local_target, target
from minikafka.cli.with_cluster import environment


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClusterLayout:
    """Of a cluster that runs, as far as a verb asks."""
    monkeypatch.setattr(LocalCluster, "running", lambda _cluster: [1])
    return ClusterLayout.create(tmp_path / "cluster", 1, 41_000, {})


@pytest.fixture(autouse=True)
def another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment names a cluster that is not to be touched."""
    monkeypatch.delenv("MINIKAFKA_DIR", raising=False)
    properties = tmp_path / "another.properties"
    properties.write_text("security.protocol=SSL\n")
    monkeypatch.setenv("MINIKAFKA_BOOTSTRAP_SERVERS", "another:1")
    monkeypatch.setenv("MINIKAFKA_COMMAND_CONFIG", str(properties))


def test_a_directory_that_is_named_is_that_of_the_cluster(layout: ClusterLayout) -> None:
    """`topic delete --dir` deleted the topic of the cluster that the environment named."""
    named = target(None, layout.directory)
    assert (named.servers, named.security.security_protocol) == (layout.bootstrap_servers, "PLAINTEXT")
    assert named.command("topic list") == f"minikafka topic list --dir {layout.directory}"


def test_the_environment_says_it_otherwise() -> None:
    for named in (target(None, None), target("another:1", None)):
        assert (named.servers, named.security.security_protocol) == ("another:1", "SSL")


@pytest.mark.usefixtures("layout")
def test_only_who_has_no_cluster_is_told_to_start_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("MINIKAFKA_BOOTSTRAP_SERVERS")
    assert target(None, None).start == ""  # the file of --command-config belongs to a cluster
    monkeypatch.delenv("MINIKAFKA_COMMAND_CONFIG")
    assert target(None, None).start == "minikafka cluster start"
    assert target(None, tmp_path / "cluster").start == ""  # it runs


def test_verbs_beside_a_new_cluster_go_by_its_directory(layout: ClusterLayout) -> None:
    """`minikafka run -- minikafka cluster status` asked a broker, and called a cluster healthy that had lost a node."""
    outside = {
        "HOME": "/h",
        "MINIKAFKA_BOOTSTRAP_SERVERS": "another:1",
        "MINIKAFKA_COMMAND_CONFIG": "c",
        "KAFKA_CLIENT_PROPERTIES": "c",
    }
    assert environment(layout, outside) == {
        "HOME": "/h",
        "KAFKA_BOOTSTRAP_SERVERS": layout.bootstrap_servers,
        "MINIKAFKA_DIR": str(layout.directory),
    }


def test_verbs_of_a_local_cluster_alone_log_in_at_that(layout: ClusterLayout) -> None:
    assert local_target(LocalCluster(layout)).security.security_protocol == "PLAINTEXT"
