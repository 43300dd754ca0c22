"""Several metadata logs of one node, and older copies: a log directory was away, or was put back from a backup."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from shutil import copytree, rmtree

import pytest
from broker_node import Cluster, create_topic, eventually, make_node

from minikafka.broker.drivers.metadata_copies import Choice, Copy, choose
from minikafka.broker.drivers.metadata_recovery import REPAIR_MARK
from minikafka.broker.node import Node
from minikafka.model import METADATA_PARTITION
from minikafka.storage.errors import StorageFailure

StartNode = Callable[..., Awaitable[Node]]

OLD, NEW = 6, 28


@pytest.mark.parametrize(
    ("copies", "choice"),
    [
        pytest.param([Copy(NEW, 3, 50)], Choice(0, True), id="alone"),
        pytest.param([Copy(None, 3, 50)], Choice(0, True), id="alone, the registration cannot be read"),
        pytest.param([Copy(OLD, 3, 50)], Choice(0, False), id="alone, from a backup"),
        pytest.param([Copy(OLD, 3, 50), Copy(NEW, 3, 40)], Choice(1, True), id="the other one was away"),
        pytest.param([Copy(NEW, 3, 50), Copy(NEW, -1, 0)], Choice(0, True), id="the other one was never repaired"),
        pytest.param([Copy(NEW, -1, 0), Copy(NEW, 3, 50)], Choice(1, True), id="the same, in another order"),
        pytest.param([Copy(OLD, 3, 50), Copy(NEW, -1, 0)], Choice(0, False), id="it registered before the repair"),
        pytest.param([Copy(NEW, 3, 50), Copy(NEW, 4, 10)], Choice(1, False), id="killed before it registered"),
        pytest.param([Copy(None, 3, 50), Copy(NEW, 3, 10)], Choice(1, False), id="the other one had failed"),
        pytest.param([Copy(OLD, -1, 0), Copy(OLD, -1, 0)], Choice(0, False), id="nothing anywhere"),
    ],
)
def test_the_copy_that_has_all_promises_is_the_newest_one_with_records(copies: list[Copy], choice: Choice) -> None:
    assert choose(copies, NEW) == choice


def two(directory: Path) -> str:
    return f"{directory / 'one'},{directory / 'two'}"


def metadata_in(directory: Path) -> Path:
    return directory / str(METADATA_PARTITION)


@pytest.mark.spec("P5")
async def test_an_older_copy_of_the_metadata_log_does_not_vote_until_somebody_decides(
    start_node: StartNode, tmp_path: Path
) -> None:
    """The only voter: nobody repairs it. What the operator decides is not asked again."""
    node = await start_node(log_dirs=two(tmp_path))
    await create_topic(node, "before")
    await node.stop()
    copytree(tmp_path / "one", tmp_path / "backup")
    node = await start_node(log_dirs=two(tmp_path))
    await create_topic(node, "later")
    await node.stop()
    rmtree(tmp_path / "one")
    (tmp_path / "backup").rename(tmp_path / "one")
    for _ in range(2):
        with pytest.raises(StorageFailure, match="its log directory is an older copy"):
            make_node(tmp_path, log_dirs=two(tmp_path))
    (metadata_in(tmp_path / "one") / REPAIR_MARK).unlink()
    node = await start_node(log_dirs=two(tmp_path))
    assert node.image.topic("before")
    assert not node.image.topic("later")


@pytest.mark.spec("P5")
async def test_a_metadata_log_that_was_never_repaired_gives_way_when_the_first_directory_is_back(
    start_node: StartNode, tmp_path: Path
) -> None:
    node = await start_node(log_dirs=two(tmp_path))
    await create_topic(node, "orders")
    await node.stop()
    with pytest.raises(StorageFailure, match=f"it is missing; log.dirs named {tmp_path / 'one'}, too, where it may be"):
        await start_node(log_dirs=tmp_path / "two")
    assert metadata_in(tmp_path / "two").exists()
    node = await start_node(log_dirs=f"{tmp_path / 'two'},{tmp_path / 'one'}")
    assert node.image.topic("orders")
    assert not metadata_in(tmp_path / "two").exists()
    assert list((tmp_path / "two").glob(f"{METADATA_PARTITION}.*-stray"))


@pytest.mark.spec("P5", "P1")
async def test_a_voter_keeps_its_promises_when_its_former_log_directory_is_back(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The quorum repaired a new metadata log meanwhile, with which it acknowledged a topic. The former log has none."""
    both = {node_id: two(tmp_path / str(node_id)) for node_id in cluster.node_ids}
    for node_id, paths in both.items():
        await cluster.start(node_id, log_dirs=paths)
    await cluster.ready()
    await cluster.nodes.pop(1).stop()
    await cluster.start(1, log_dirs=tmp_path / "1" / "two")
    await cluster.ready()
    await cluster.kill(3)
    await create_topic(cluster.nodes[1], "orders", replicas=[[1, 2]])
    await cluster.nodes.pop(1).stop()
    await cluster.kill(2)
    for node_id in (1, 3):
        await cluster.start(node_id, log_dirs=both[node_id])
    await cluster.ready()
    assert cluster.nodes[3].image.topic("orders")
    await eventually(lambda: cluster.nodes[1].image.topic("orders"), "the topic")
