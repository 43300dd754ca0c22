"""A disk that lies: what it has kept when its node is killed, stopped, or mended."""

from __future__ import annotations

from pathlib import Path

import pytest

from minikafka.broker.faults.disk import TroubledDisk
from minikafka.broker.faults.platter import Platter
from minikafka.storage.disk import OsLock
from minikafka.storage.log_dir import LOCK_FILE


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data" / "t-0").mkdir(parents=True)
    (tmp_path / "data" / "t-0" / "0.log").write_text("kept")
    (tmp_path / "data" / "gone").symlink_to("when it is to be copied")
    return tmp_path / "data"


def lying_disk(data: Path) -> TroubledDisk:
    """Which has been written to since."""
    disk = TroubledDisk(lambda seconds: None, Platter([str(data)]))
    disk.change(is_lying=True)
    (data / "t-0" / "0.log").write_text("kept and lost")
    (data / "t-1").mkdir()
    (data / "offsets").write_text("lost")
    return disk


def files(data: Path) -> dict[str, str]:
    found = {str(path.relative_to(data)): path.read_text() for path in data.rglob("*") if path.is_file()}
    return {name: text for name, text in found.items() if name != LOCK_FILE}


def test_a_node_that_was_killed_begins_with_what_was_kept_and_another_boot_id(data: Path) -> None:
    for boot_id in ("b after 1", "b after 2"):
        lying_disk(data)
        started = Platter([str(data)])
        started.lose()
        assert files(data) == {"t-0/0.log": "kept"}
        assert not (data / "t-1").exists()
        assert started.boot_id("b") == boot_id
        started.lose()  # of a later kill: the disk does not lie any more
        assert started.boot_id("b") == boot_id


def test_a_node_that_ended_in_order_has_lost_nothing(data: Path) -> None:
    lying_disk(data)
    (data / ".kafka_cleanshutdown").write_text("{}")
    platter = Platter([str(data)])
    platter.lose()
    assert files(data)["t-0/0.log"] == "kept and lost"
    assert platter.boot_id("b") == "b"
    (data / ".kafka_cleanshutdown").unlink()
    platter.lose()
    assert files(data)["t-0/0.log"] == "kept and lost"


def test_a_second_process_takes_nothing_from_a_node_that_runs(data: Path) -> None:
    """Who starts a node twice by mistake is told so; the node that runs had lost its files by then."""
    running = OsLock(str(data / LOCK_FILE))
    lying_disk(data)
    Platter([str(data)]).lose()
    assert files(data)["t-0/0.log"] == "kept and lost"
    running.release()
    Platter([str(data)]).lose()
    assert files(data) == {"t-0/0.log": "kept"}


def test_a_disk_that_was_mended_has_lost_nothing(data: Path) -> None:
    disk = lying_disk(data)
    disk.change(is_full=True)
    disk.change(is_lying=True)  # as it did
    assert (data.parent / "platter-of-data" / "t-0" / "0.log").read_text() == "kept"
    disk.change(is_lying=False)
    Platter([str(data)]).lose()
    assert files(data)["t-0/0.log"] == "kept and lost"
    assert [path.name for path in data.parent.iterdir()] == ["data"]


def test_a_node_that_is_killed_while_it_loses_loses_once_more(data: Path) -> None:
    lying_disk(data)
    (data / "t-0" / "0.log").unlink()
    Platter([str(data)]).lose()
    assert files(data) == {"t-0/0.log": "kept"}
