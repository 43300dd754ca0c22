from __future__ import annotations

import json
import re
import stat
from pathlib import Path

import pytest

from minikafka.chaos.layout import ClusterError, ClusterLayout, default_directory, new_cluster_id, replication_defaults
from minikafka.config import BrokerConfig, parse_properties


def config(layout: ClusterLayout, node_id: int) -> BrokerConfig:
    return BrokerConfig(parse_properties(layout.server_properties(node_id)))


@pytest.fixture
def layout(tmp_path: Path) -> ClusterLayout:
    return ClusterLayout.create(tmp_path / "c", brokers=3, base_port=19092, settings={"log.segment.bytes": "4096"})


def test_an_opened_layout_equals_the_created_one(layout: ClusterLayout) -> None:
    assert ClusterLayout.open(layout.directory) == layout
    assert ClusterLayout.exists(layout.directory)


def test_ports_follow_from_the_base_port(layout: ClusterLayout) -> None:
    assert layout.ports(1) == (19092, 19192, 19292)
    assert layout.ports(3) == (19094, 19194, 19294)
    assert layout.bootstrap_servers == "127.0.0.1:19092,127.0.0.1:19093,127.0.0.1:19094"


def test_every_node_is_configured_to_find_the_others(layout: ClusterLayout) -> None:
    one, two = config(layout, 1), config(layout, 2)
    assert (one.node_id, two.node_id) == (1, 2)
    assert one.cluster_id == two.cluster_id == layout.cluster_id
    assert one.cluster_secret_file == str(layout.secret_file)
    assert one.log_dirs == (str(layout.data_directory(1)),)
    assert one.controller_quorum_voters == two.controller_quorum_voters
    assert one.controller_quorum_voters[2] == two.listeners["CONTROLLER"] == ("127.0.0.1", 19293)
    assert [endpoint.port for endpoint in one.listeners.values()] == [19092, 19192, 19292]


def test_metrics_have_a_port_of_their_own_if_they_are_asked_for(layout: ClusterLayout, tmp_path: Path) -> None:
    assert (layout.metrics_port(1), layout.metrics_urls, config(layout, 1).metrics_listener) == (None, [], None)
    measured = ClusterLayout.create(tmp_path / "m", 2, 19092, {}, metrics=True)
    assert measured.metrics_urls == ["http://127.0.0.1:19392/metrics", "http://127.0.0.1:19393/metrics"]
    assert config(measured, 2).metrics_listener == ("127.0.0.1", 19393)
    assert ClusterLayout.open(measured.directory) == measured
    assert measured.with_added_node().metrics_port(3) == 19394
    with pytest.raises(ClusterError, match="needs the ports up to 65536"):
        ClusterLayout.create(tmp_path / "n", 1, 65_236, {}, metrics=True)


def test_settings_of_the_user_win(layout: ClusterLayout, tmp_path: Path) -> None:
    assert config(layout, 1).log_segment_bytes == 4096
    assert config(layout, 1).min_insync_replicas == 2
    other = ClusterLayout.create(tmp_path / "d", 3, 19092, {"min.insync.replicas": "1"})
    assert config(other, 1).min_insync_replicas == 1


def test_a_directory_with_an_odd_name_survives_the_configuration_file(tmp_path: Path) -> None:
    layout = ClusterLayout.create(tmp_path / "a b\\c=d#e", 1, 19092, {})
    assert config(layout, 1).log_dirs == (str(layout.data_directory(1)),)
    with pytest.raises(ClusterError, match="comma"):
        ClusterLayout.create(tmp_path / "a,b", 1, 19092, {})


@pytest.mark.parametrize(("brokers", "copies", "in_sync"), [(1, "1", "1"), (2, "2", "2"), (3, "3", "2"), (5, "3", "2")])
def test_defaults_are_as_safe_as_the_number_of_brokers_allows(brokers: int, copies: str, in_sync: str) -> None:
    defaults = replication_defaults(brokers)
    assert defaults["default.replication.factor"] == defaults["offsets.topic.replication.factor"] == copies
    assert defaults["min.insync.replicas"] == in_sync


def test_files_are_written_once_and_are_private(layout: ClusterLayout) -> None:
    """Settings may have passwords."""
    layout.write_files()
    files = (layout.secret_file, layout.config_file(1), layout.directory / "cluster.json")
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    secret = layout.secret_file.read_text()
    layout.config_file(2).write_text("edited=1\n")
    layout.write_files()
    assert layout.secret_file.read_text() == secret
    assert layout.config_file(2).read_text() == "edited=1\n"
    assert layout.data_directory(3).is_dir()


def test_a_node_that_joins_later_is_a_broker_without_a_vote(layout: ClusterLayout) -> None:
    joined = layout.with_added_node()
    assert joined.node_ids == [1, 2, 3, 4]
    assert joined.voter_ids == [1, 2, 3]
    four = config(joined, 4)
    assert four.process_roles == ("broker",)
    assert four.controller_quorum_voters == config(joined, 1).controller_quorum_voters
    assert list(four.controller_quorum_voters) == [1, 2, 3]
    assert joined.server_properties(1) == layout.server_properties(1)
    joined.save()
    assert ClusterLayout.open(layout.directory) == joined


def test_a_node_that_was_removed_never_lends_its_id_to_another(layout: ClusterLayout) -> None:
    without = layout.with_added_node().without_node(4)
    assert without.node_ids == [1, 2, 3]
    assert without.with_added_node().node_ids == [1, 2, 3, 5]


def test_a_voter_cannot_be_removed(layout: ClusterLayout) -> None:
    with pytest.raises(ClusterError, match="node 2 votes in the controller quorum"):
        layout.with_added_node().without_node(2)


def test_a_layout_of_an_older_version_votes_with_all_its_nodes(layout: ClusterLayout) -> None:
    file = layout.directory / "cluster.json"
    fields = json.loads(file.read_text())
    del fields["voters"], fields["next_id"], fields["metrics"]
    file.write_text(json.dumps(fields))
    assert ClusterLayout.open(layout.directory).voter_ids == [1, 2, 3]
    assert not ClusterLayout.open(layout.directory).metrics


def test_a_directory_with_other_things_in_it_is_refused(tmp_path: Path) -> None:
    tmp_path.joinpath("thesis.txt").write_text("")
    with pytest.raises(ClusterError, match="not empty"):
        ClusterLayout.create(tmp_path, 3, 19092, {})


def test_what_is_no_directory_is_refused() -> None:
    with pytest.raises(ClusterError, match="/dev/null is not a directory; choose another --dir"):
        ClusterLayout.create(Path("/dev/null"), 3, 19092, {})


def test_a_missing_and_a_damaged_cluster_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"no cluster found in .*minikafka cluster start"):
        ClusterLayout.open(tmp_path)
    tmp_path.joinpath("cluster.json").write_text(json.dumps({"cluster_id": "x"}))
    with pytest.raises(ClusterError, match="damaged"):
        ClusterLayout.open(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"cluster_id": 1},
        {"base_port": "19092"},
        {"base_port": 99_999_999},
        {"base_port": True},
        {"node_ids": 3},
        {"node_ids": []},
        {"node_ids": ["1"]},
        {"node_ids": [-1]},
        {"settings": ["x"]},
        {"settings": {"num.partitions": 3}},
        {"voters": "3"},
        {"next_id": None},
        {"metrics": 1},
        "[" * 100_000,
    ],
    ids=lambda change: str(change)[:40],
)
def test_values_that_cannot_be_are_refused_with_the_file(tmp_path: Path, change: dict[str, object] | str) -> None:
    """Somebody edited it. No verb may end in a traceback for that."""
    layout = ClusterLayout.create(tmp_path, 3, 19092, {})
    file = tmp_path / "cluster.json"
    file.write_text(change if isinstance(change, str) else json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(ClusterError, match=r"damaged|--base-port"):
        ClusterLayout.open(layout.directory)


@pytest.mark.parametrize(("brokers", "base_port"), [(0, 19092), (100, 19092), (3, 0), (3, 65400)])
def test_a_cluster_that_does_not_fit_is_refused(tmp_path: Path, brokers: int, base_port: int) -> None:
    with pytest.raises(ClusterError, match=r"a cluster has 1 to 99 brokers|--base-port"):
        ClusterLayout.create(tmp_path / "c", brokers, base_port, {})
    assert not (tmp_path / "c").exists()


def test_cluster_ids_have_kafkas_form() -> None:
    ids = {new_cluster_id() for _ in range(200)}
    assert len(ids) == 200
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", cluster_id) for cluster_id in ids)


def test_the_default_directory_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINIKAFKA_DIR", "/somewhere")
    assert default_directory() == Path("/somewhere")
    monkeypatch.delenv("MINIKAFKA_DIR")
    assert default_directory() == Path.home() / ".minikafka" / "default"


def test_a_user_without_a_home_directory_names_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As in a container that runs with a number for a user."""

    def nobody(*_: object) -> None:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("MINIKAFKA_DIR", raising=False)
    monkeypatch.setattr(Path, "home", nobody)
    with pytest.raises(ClusterError, match="this user has no home directory; name one for the cluster with --dir"):
        default_directory()
    layout = ClusterLayout.create(tmp_path / "c", 1, 20_000, {})
    assert layout.command("cluster start") == f"minikafka cluster start --dir {tmp_path / 'c'}"
