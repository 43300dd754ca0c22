from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from click.testing import CliRunner
from command_line import COMMAND

from minikafka.chaos.cluster_status import cluster_status, losses_file
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.chaos.probe import NOT_TOLD, ClusterView, PartitionView, QuorumView
from minikafka.chaos.processes import RunningProcess
from minikafka.cli import cluster as cluster_verbs
from minikafka.cli import status as status_verb

RUNNING = RunningProcess(100, "python", paused=False, rss_bytes=1 << 20)


class StagedCluster(LocalCluster):
    """A cluster whose processes and view are given."""

    processes: dict[int, RunningProcess]
    staged_view: ClusterView | None
    staged_quorum: QuorumView

    def process(self, node_id: int) -> RunningProcess | None:
        return self.processes.get(node_id)

    def _spawn(self, node_ids: Iterable[int], started: list[int]) -> None:
        self.processes.update(dict.fromkeys(node_ids, RUNNING))
        started += node_ids

    def view(self) -> ClusterView | None:
        return self.staged_view

    def quorum(self) -> QuorumView:
        return self.staged_quorum


@pytest.fixture(autouse=True)
def nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster of another directory on this machine, on the default port, is not looked at."""
    monkeypatch.setattr(status_verb, "_of_others", lambda: None)


@pytest.fixture
def cluster(tmp_path: Path) -> StagedCluster:
    cluster = StagedCluster(LocalCluster.create(tmp_path / "c").layout)
    cluster.processes = {n: RunningProcess(100 + n, "python", paused=n == 3, rss_bytes=1 << 20) for n in (1, 2, 3)}
    partitions = (PartitionView("t", 0, 1, (1, 2, 3), (1, 2)), PartitionView("t", 1, 2, (2, 1, 3), (2, 1, 3)))
    cluster.staged_view = ClusterView("c", 2, frozenset({1, 2, 3}), partitions)
    cluster.staged_quorum = QuorumView(2)
    return cluster


def test_each_node_has_its_state_and_its_part(cluster: StagedCluster) -> None:
    status = cluster_status(cluster)
    assert [node.state for node in status.nodes] == ["up", "up", "paused"]
    assert [node.leaders for node in status.nodes] == [1, 1, 0]
    assert [node.under_replicated for node in status.nodes] == [1, 0, 0]
    assert [node.pid for node in status.nodes] == [101, 102, 103]
    assert status.controller_id == 2
    assert not status.healthy


def test_a_cluster_is_healthy_when_nothing_is_missing(cluster: StagedCluster) -> None:
    cluster.processes[3] = cluster.processes[3]._replace(paused=False)
    assert cluster.staged_view is not None
    cluster.staged_view = cluster.staged_view._replace(partitions=cluster.staged_view.partitions[1:])
    assert cluster_status(cluster).healthy
    cluster.staged_view = cluster.staged_view._replace(broker_ids=frozenset({1, 2}))
    assert not cluster_status(cluster).healthy


def test_a_node_without_a_quorum_still_remembers_a_controller_that_is_gone(cluster: StagedCluster) -> None:
    del cluster.processes[2]
    status = cluster_status(cluster)
    assert status.controller_id is None
    assert not status.healthy


def test_a_lost_quorum_is_named_though_metadata_names_a_controller(
    cluster: StagedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker without a controller names itself in its metadata: only the quorum itself can tell."""
    monkeypatch.setattr(status_verb, "open_cluster", lambda _directory: cluster)
    cluster.staged_quorum = QuorumView(None, "the metadata quorum has no leader; node 2 has no contact to nodes 1, 3")
    said = CliRunner().invoke(COMMAND, ["cluster", "status"])
    assert said.exit_code == 1
    assert "\nno active controller: the metadata quorum has no leader; node 2 has no contact" in said.output
    assert "leaders and in-sync replicas are as last known" in said.output
    assert "*" not in said.output
    assert '"controller": null' in CliRunner().invoke(COMMAND, ["cluster", "status", "--json"]).output
    cluster.staged_quorum = QuorumView(None, NOT_TOLD)
    denied = CliRunner().invoke(COMMAND, ["cluster", "status"]).output
    assert "the active controller is not told: whoever asks may not describe" in denied
    assert "no active controller" not in denied


def test_a_node_that_waits_for_a_majority_is_explained(cluster: StagedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not listen for clients before there is a controller, so that nobody can be asked."""
    monkeypatch.setattr(status_verb, "open_cluster", lambda _directory: cluster)
    monkeypatch.setattr(cluster_verbs, "open_cluster", lambda _directory: cluster)
    cluster.processes = {}
    cluster.staged_view = None
    restarted = CliRunner().invoke(COMMAND, ["cluster", "restart", "2"])
    assert restarted.output == "node 2 is up, but waits for others: an election needs 2 of nodes 1, 2, 3\n"
    said = CliRunner().invoke(COMMAND, ["cluster", "status"]).output
    assert "\nno node answers: an election needs 2 of nodes 1, 2, 3; start the others with: minikafka cluster" in said
    cluster.processes[1] = RUNNING
    assert "\nno node answers, though up: 1, 2; see" in CliRunner().invoke(COMMAND, ["cluster", "status"]).output


def test_a_paused_node_is_shown_with_the_way_out(cluster: StagedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_verb, "open_cluster", lambda _directory: cluster)
    said = CliRunner().invoke(COMMAND, ["cluster", "status"]).output
    assert "\nnode 3 is paused; resume it with: minikafka cluster resume 3 --dir " in said


def test_partitions_without_a_leader_are_named(cluster: StagedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are in no node's row."""
    monkeypatch.setattr(status_verb, "open_cluster", lambda directory: cluster)
    assert "without a leader" not in CliRunner().invoke(COMMAND, ["cluster", "status"]).output
    assert cluster.staged_view is not None
    gone = tuple(PartitionView("t", number, -1, (1, 2), ()) for number in range(6))
    cluster.staged_view = cluster.staged_view._replace(partitions=gone)
    said = CliRunner().invoke(COMMAND, ["cluster", "status"]).output
    assert "partitions without a leader: 6 (t-0, t-1, t-2, t-3, t-4, ...)" in said


def test_the_status_ends_with_what_is_wrong_or_that_nothing_is(
    cluster: StagedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_verb, "open_cluster", lambda directory: cluster)
    said = CliRunner().invoke(COMMAND, ["cluster", "status"])
    assert said.exit_code == 1
    assert "healthy" not in said.output
    show = f"minikafka topic describe --under-replicated --dir {cluster.layout.directory}"
    assert said.output.endswith(f"\nunder-replicated: 1 of 2 partitions; see {show}\n")
    assert cluster.staged_view is not None
    cluster.processes[3] = cluster.processes[3]._replace(paused=False)
    whole = (PartitionView("t", 0, 1, (1, 2), (1, 2)),)
    cluster.staged_view = cluster.staged_view._replace(partitions=whole, broker_ids=frozenset({1, 2, 3}))
    said = CliRunner().invoke(COMMAND, ["cluster", "status"])
    assert said.exit_code == 0
    assert said.output.endswith("\nhealthy: every replica is in sync\n")


def test_why_a_node_ended_is_shown(cluster: StagedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last critical line of its last run, or how a run ended that did not get as far as logging."""
    monkeypatch.setattr(status_verb, "open_cluster", lambda _directory: cluster)
    before = "2026-01-01T00:00:00Z [critical ] cannot run why='of another run'\n"
    log, start = cluster.layout.log_file(2), cluster.layout.log_start_file(2)
    log.parent.mkdir(parents=True, exist_ok=True)
    del cluster.processes[2]
    for last, shown in (
        (
            "2026-01-01T00:00:01Z [critical ] cannot run    node=2 why='the disk is gone'\n",
            "cannot run: the disk is gone\n",
        ),
        ("minikafka broker: log.segment.bytes = 'potato'\n", "minikafka broker: log.segment.bytes = 'potato'"),
    ):
        log.write_text(before + last)
        start.write_text(f"{len(before)}\n")
        assert f"\nnode 2 ended: {shown}" in CliRunner().invoke(COMMAND, ["cluster", "status"]).output
    log.write_text(before + "2026-01-01T00:00:01Z [info     ] stopped    node=2\n")
    assert "node 2 ended" not in CliRunner().invoke(COMMAND, ["cluster", "status"]).output
    log.write_text(before + '{"event": "stopped", "level": "info", "node": 2}\n')
    assert "node 2 ended" not in CliRunner().invoke(COMMAND, ["cluster", "status"]).output
    log.write_text(before + "2026-01-01T00:00:01Z [info     ] registered    node=2\n")
    assert (
        "\nnode 2 ended: killed by SIGKILL, it seems: its log ends"
        in CliRunner().invoke(COMMAND, ["cluster", "status"]).output
    )
    log.write_text(before)
    assert "\nnode 2 ended: without a line in its log" in CliRunner().invoke(COMMAND, ["cluster", "status"]).output


def test_what_an_old_image_remembers_of_a_dead_node_is_not_life(cluster: StagedCluster) -> None:
    del cluster.processes[1]
    assert [node.live for node in cluster_status(cluster).nodes] == [False, True, True]


def test_losses_that_a_node_wrote_down_are_shown(cluster: StagedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    path = losses_file(cluster, 2)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("1 t-0 one\n2 t-1 another\n")
    assert [node.losses for node in cluster_status(cluster).nodes] == [0, 2, 0]
    monkeypatch.setattr(status_verb, "open_cluster", lambda _directory: cluster)
    shown = CliRunner().invoke(COMMAND, ["cluster", "status"]).output
    assert "\nnode 2 reports lost records: 2\n" in shown


def test_a_node_whose_files_cannot_be_read_hides_no_other(
    cluster: StagedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One data directory without permission, and the status of the whole cluster was its error."""
    monkeypatch.setattr(status_verb, "open_cluster", lambda _directory: cluster)
    del cluster.processes[2]
    losses, start = losses_file(cluster, 2), cluster.layout.log_start_file(2)
    refuse(monkeypatch, "read_bytes", losses)
    refuse(monkeypatch, "read_text", start)
    shown = CliRunner().invoke(COMMAND, ["cluster", "status"])
    assert shown.exit_code == 1
    assert f"\nnode 2 ended: why, its log would tell: {start}: Permission denied\n" in shown.output
    assert f"\nnode 2 may report lost records, but {losses} cannot be read\n" in shown.output
    assert "up  " in shown.output
    assert '"losses": null' in CliRunner().invoke(COMMAND, ["cluster", "status", "--json"]).output


def refuse(monkeypatch: pytest.MonkeyPatch, how: str, path: Path) -> None:
    """Let the file refuse to be read that way: whoever tests as root may read everything."""
    real = getattr(Path, how)

    def refusing(self: Path) -> object:
        if self == path:
            raise PermissionError(13, "Permission denied", str(path))
        return real(self)

    monkeypatch.setattr(Path, how, refusing)
