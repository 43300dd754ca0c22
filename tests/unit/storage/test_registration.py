"""Which registration a start continues: after an orderly stop, after a kill, after a power cut."""

from __future__ import annotations

import errno
from pathlib import Path
from shutil import rmtree
from uuid import UUID

import pytest
from captured_logs import capture_logs

from minikafka.model import CLUSTER_METADATA_TOPIC_ID, METADATA_PARTITION, TopicPartition
from minikafka.storage.config import LogConfig
from minikafka.storage.damage import Corruption
from minikafka.storage.disk import NamesFile, OsDisk
from minikafka.storage.errors import StorageFailure
from minikafka.storage.log_store import LogStore
from minikafka.storage.meta import REPLACED_FILE
from minikafka.storage.registration import ANYTHING_LOST, Registrations
from minikafka.storage.registration_file import (
    REGISTRATION_FILE,
    Registration,
    format_registration,
    read_registration,
)

DISK = OsDisk()


class Machine:
    """A node's disks, from one start to the next."""

    def __init__(self, path: Path, directories: int = 1) -> None:
        self.paths = [str(path / f"d{number}") for number in range(directories)]
        self.boot_id: str | None = "boot-1"
        self.ids = iter(range(11, 99))

    def start(self) -> Registrations:
        self.store = LogStore.open(
            DISK,
            self.paths,
            node_id=1,
            cluster_id="c",
            new_uuid=lambda: UUID(int=next(self.ids)),
            boot_id=self.boot_id,
        )
        return Registrations(DISK, self.store, self.boot_id)

    def kill(self) -> None:
        self.store.abandon()

    def unmount(self, number: int) -> None:
        """What is left of a directory is an empty mount point."""
        Path(self.paths[number]).rename(f"{self.paths[number]}-unmounted")
        Path(self.paths[number]).mkdir()

    def mount(self, number: int) -> None:
        rmtree(self.paths[number])
        Path(f"{self.paths[number]}-unmounted").rename(self.paths[number])

    def replace(self, number: int) -> None:
        Path(self.paths[number]).mkdir(exist_ok=True)
        (Path(self.paths[number]) / REPLACED_FILE).touch()

    def fail(self, number: int, disk: OsDisk) -> list[str]:
        """A directory fails while the process goes on. ``disk``: by which its registration is to go. What was said."""
        failed = self.store.directories[number]
        registrations = Registrations(disk, self.store, self.boot_id)
        registrations.write(41)
        failed.fail(StorageFailure("gone"))
        with capture_logs() as said:
            registrations.forget(failed)
        registrations.claim(frozenset({UUID(int=9)}))
        return [line["event"] for line in said if line["log_level"] == "error"]

    def stop(self, broker_epoch: int) -> None:
        self.store.close({}, broker_epoch=broker_epoch)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_first_start_continues_nothing(machine: Machine) -> None:
    assert machine.start().previous_broker_epoch == ANYTHING_LOST


@pytest.mark.spec("P1")
def test_a_kill_loses_nothing_while_the_machine_runs_on(machine: Machine) -> None:
    machine.start().write(41)
    machine.kill()
    assert machine.start().previous_broker_epoch == 41
    machine.kill()  # before it registered
    assert machine.start().previous_broker_epoch == 41


@pytest.mark.spec("P2")
@pytest.mark.parametrize("boot_id", ["boot-2", None])
def test_a_machine_that_started_anew_may_have_lost_records(machine: Machine, boot_id: str | None) -> None:
    machine.start().write(41)
    machine.kill()
    machine.boot_id = boot_id
    assert machine.start().previous_broker_epoch == -1


def test_a_directory_that_the_settings_no_longer_name_is_told_once(tmp_path: Path) -> None:
    """Nothing else tells: the replicas in it are made anew, and one without other replicas has no leader."""
    machine = Machine(tmp_path, directories=2)
    machine.start().write(41)
    machine.stop(41)
    left_out = machine.paths.pop()
    with capture_logs() as logs:
        machine.start().write(52)
        machine.stop(52)
        machine.start()
    assert [one["path"] for one in logs if one["event"] == "log directory left out"] == [left_out]


def test_a_directory_that_was_moved_is_not_left_out(tmp_path: Path) -> None:
    machine = Machine(tmp_path, directories=2)
    machine.start().write(41)
    machine.stop(41)
    machine.paths[1] = str(Path(machine.paths[1]).rename(tmp_path / "elsewhere"))
    with capture_logs() as logs:
        machine.start()
    assert not [one for one in logs if one["event"] == "log directory left out"]


def test_an_unknown_boot_is_never_the_same(machine: Machine) -> None:
    machine.boot_id = None
    machine.start().write(41)
    machine.kill()
    assert machine.start().previous_broker_epoch == -1


def test_an_orderly_stop_loses_nothing_whatever_the_machine_does(machine: Machine) -> None:
    machine.start().write(41)
    machine.stop(41)
    machine.boot_id = "boot-2"
    assert machine.start().previous_broker_epoch == 41


def test_the_same_process_continues_itself(machine: Machine) -> None:
    registrations = machine.start()
    registrations.write(41)
    assert registrations.previous_broker_epoch == 41


@pytest.mark.spec("P5")
def test_only_whole_logs_are_claimed(machine: Machine) -> None:
    """One damaged log costs one replica its place, not the node all of its replicas."""
    machine.start().write(41)
    for partition in (2, 0, 1):
        machine.store.create(TopicPartition("t", partition), UUID(int=7), LogConfig())
    machine.store.create(TopicPartition("u", 5), UUID(int=8), LogConfig())
    machine.store.create(TopicPartition("__cluster_metadata", 0), UUID(int=1), LogConfig())
    machine.kill()
    (Path(machine.paths[0]) / "t-1" / "partition.metadata").write_bytes(b"")
    rmtree(Path(machine.paths[0]) / "t-2")
    registrations = machine.start()
    assert registrations.previous_broker_epoch == 41
    assert registrations.whole_replicas() == {UUID(int=7): (0,), UUID(int=8): (5,)}


@pytest.mark.spec("P2")
@pytest.mark.spec("P5")
def test_a_disk_that_loses_synced_bytes_with_power_is_not_believed_at_all(machine: Machine) -> None:
    machine.start().write(41)
    log = machine.store.create(TopicPartition("t", 0), UUID(int=7), LogConfig())
    log.corruption = Corruption("x", 0, 0, "bad checksum", None)
    assert Registrations(DISK, machine.store, machine.boot_id).previous_broker_epoch == 41
    assert Registrations(DISK, machine.store, "boot-2").previous_broker_epoch == ANYTHING_LOST


def test_of_several_directories_the_newest_tells(tmp_path: Path) -> None:
    machine = Machine(tmp_path, directories=2)
    machine.start().write(41)
    Path(machine.paths[0], REGISTRATION_FILE).write_bytes(format_registration(Registration(40, "boot-0", ())))
    machine.kill()
    registrations = machine.start()
    assert registrations.previous_broker_epoch == 41
    assert len(set(registrations.online_directories())) == 2
    assert registrations.failed_directories() == ()


@pytest.mark.spec("P1", "P5")
@pytest.mark.parametrize("how", ["replaced", "failed", "unmounted", "left out", "registration unreadable"])
def test_a_directory_takes_its_own_replicas_only(tmp_path: Path, how: str) -> None:
    """It took all of the node's: where others had lost a directory, too, or one its power, nobody was left who counted,
    and who led last led without what these had."""
    machine = Machine(tmp_path, directories=2)
    machine.start().write(41)
    for number, directory in enumerate(machine.store.directories):
        machine.store.create(TopicPartition(f"t{number}", 0), UUID(int=7 + number), LogConfig(), directory)
    if how == "failed":
        machine.fail(1, OsDisk())
    machine.kill()
    match how:
        case "replaced":
            rmtree(machine.paths[1])
            machine.replace(1)
        case "unmounted":
            machine.unmount(1)
        case "left out":
            machine.paths.pop()
        case "registration unreadable":
            Path(machine.paths[1], REGISTRATION_FILE).write_bytes(b"x")
    registrations = machine.start()
    assert registrations.previous_broker_epoch == 41
    assert registrations.whole_replicas() == {UUID(int=7): (0,)}
    assert registrations.recorded_broker_epoch == 41


@pytest.mark.spec("P5", "R12")
def test_a_directory_whose_file_system_is_not_mounted_is_offline(tmp_path: Path) -> None:
    """Made anew it would be written to the disk of the mount point, and hidden when that is mounted again."""
    machine = Machine(tmp_path, directories=2)
    machine.start().write(41)
    machine.store.create(TopicPartition("t", 0), UUID(int=7), LogConfig(), machine.store.directories[1])
    machine.kill()
    machine.unmount(1)
    for broker_epoch in (42, 43):  # it is remembered though the node registers without it
        registrations = machine.start()
        registrations.write(broker_epoch)
        assert len(registrations.online_directories()) == 1
        failure = machine.store.directories[1].failure
        assert failure is not None
        assert failure.message.startswith(f"{machine.paths[1]} is empty and held log directory ")
        assert f"create an empty file {machine.paths[1]}/replaced" in failure.message
        assert "\n" not in failure.message
        assert [path.name for path in Path(machine.paths[1]).iterdir()] == [".lock"]
        machine.kill()
    machine.mount(1)
    registrations = machine.start()
    assert len(registrations.online_directories()) == 2
    assert TopicPartition("t", 0) in machine.store.directories[1].logs
    assert registrations.whole_replicas() == {}, "the others may have gone on without it"


@pytest.mark.spec("P5", "R12")
def test_a_directory_that_was_replaced_is_made_anew_once(tmp_path: Path) -> None:
    machine = Machine(tmp_path, directories=2)
    machine.start().write(41)
    machine.kill()
    machine.unmount(1)
    machine.replace(1)
    machine.start()
    assert not (Path(machine.paths[1]) / REPLACED_FILE).exists()
    machine.kill()  # before it registered
    registrations = machine.start()
    assert len(registrations.online_directories()) == 2
    registrations.write(42)
    machine.kill()
    machine.unmount(0)
    assert len(machine.start().online_directories()) == 1, "the other one tells"


def test_directories_may_be_added_moved_and_taken_away(tmp_path: Path) -> None:
    machine = Machine(tmp_path, directories=2)
    machine.start().write(41)
    machine.kill()
    machine.paths.append(str(tmp_path / "ä, new: one"))
    registrations = machine.start()
    assert len(registrations.online_directories()) == 3
    registrations.write(42)
    machine.kill()
    first, *others = machine.paths
    Path(first).rename(tmp_path / "elsewhere")
    machine.paths = [*others, str(tmp_path / "elsewhere")]
    assert len(machine.start().online_directories()) == 3
    machine.kill()
    machine.paths = [first, *others[1:], str(tmp_path / "elsewhere")]
    registrations = machine.start()
    assert len(registrations.online_directories()) == 3, "what was at the first path is elsewhere now"
    registrations.write(43)
    machine.kill()
    machine.unmount(1)
    assert len(machine.start().online_directories()) == 2


@pytest.mark.spec("P6")
def test_a_shortage_while_it_is_recorded_is_no_broken_disk(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    registrations = machine.start()
    job = registrations.prepare_write(41)

    def short(_self: OsDisk, path: str, _data: object) -> None:
        raise OSError(errno.EMFILE, "too many open files", path)

    with monkeypatch.context() as patch:
        patch.setattr(OsDisk, "write_bytes", short)
        job.run()
    assert job.must_repeat
    assert registrations.previous_broker_epoch == ANYTHING_LOST
    job.run()
    assert not job.must_repeat
    registrations.complete_write(job, 41)
    assert machine.store.online == machine.store.directories
    machine.kill()
    assert machine.start().previous_broker_epoch == 41


@pytest.mark.spec("P2")
def test_what_is_still_being_recorded_does_not_bring_back_what_was_forgotten(tmp_path: Path) -> None:
    machine = Machine(tmp_path, directories=2)
    registrations = machine.start()
    registrations.write(41)
    late = registrations.prepare_claim(frozenset({UUID(int=7)}))
    failed = machine.store.directories[1]
    failed.fail(StorageFailure("gone"))
    registrations.forget(failed)
    late.run()
    registrations.complete(late)
    assert read_registration(DISK, machine.paths[1]) is None
    found = read_registration(DISK, machine.paths[0])
    assert found is not None
    assert found.synced == (UUID(int=7),)


@pytest.mark.spec("P2")
def test_topics_that_lose_nothing_with_power_are_remembered(machine: Machine) -> None:
    registrations = machine.start()
    assert registrations.synced_topics == frozenset()
    registrations.write(41)
    registrations.claim(frozenset({UUID(int=7), UUID(int=8)}))
    registrations.claim(frozenset({UUID(int=8)}))
    machine.kill()
    machine.boot_id = "boot-2"
    registrations = machine.start()
    assert (registrations.previous_broker_epoch, registrations.synced_topics) == (-1, {UUID(int=8)})
    registrations.write(42)
    machine.kill()
    assert machine.start().synced_topics == {UUID(int=8)}


class Stubborn(OsDisk):
    """Does not remove the registration of a directory that failed."""

    def unlink(self, path: str) -> None:
        if path.endswith(REGISTRATION_FILE):
            raise OSError(errno.EIO, "stubborn")
        super().unlink(path)


@pytest.mark.spec("P2", "P5")
def test_a_directory_that_keeps_its_registration_is_not_named_by_the_others(tmp_path: Path) -> None:
    """Not either once a topic is claimed: the one that failed still names those of before."""
    machine = Machine(tmp_path, directories=2)
    machine.start()
    for number, directory in enumerate(machine.store.directories):
        machine.store.create(TopicPartition(f"t{number}", 0), UUID(int=7 + number), LogConfig(), directory)
    assert machine.fail(1, Stubborn()) == ["registration not removed"]
    machine.kill()
    registrations = machine.start()
    assert (registrations.previous_broker_epoch, registrations.synced_topics) == (41, frozenset())
    assert registrations.whole_replicas() == {UUID(int=7): (0,)}
    registrations.write(42)
    machine.kill()
    assert set(machine.start().whole_replicas()) == {UUID(int=7), UUID(int=8)}, "it has registered without it"


def test_a_directory_that_refuses_goes_offline(tmp_path: Path) -> None:
    machine = Machine(tmp_path, directories=2)
    registrations = machine.start()
    (tmp_path / "d1").rename(tmp_path / "gone")
    registrations.write(41)
    assert len(registrations.online_directories()) == 1
    assert len(registrations.failed_directories()) == 1
    found = read_registration(DISK, machine.paths[0])
    assert found is not None
    assert (found.broker_epoch, found.boot_id, len(found.directories)) == (41, "boot-1", 2)


def test_the_directory_of_the_metadata_log_names_a_registration_first(tmp_path: Path) -> None:
    """Killed in between, or refused by that disk, no other directory names a newer one."""
    machine = Machine(tmp_path, directories=2)
    registrations = machine.start()
    machine.store.create(METADATA_PARTITION, CLUSTER_METADATA_TOPIC_ID, LogConfig(), machine.store.directories[1])
    registrations.write(41)
    (tmp_path / "d1").rename(tmp_path / "gone")
    registrations.write(52)
    assert machine.store.directories[1].failure is not None
    found = read_registration(DISK, machine.paths[0])
    assert found is not None
    assert found.broker_epoch == 41


@pytest.mark.parametrize("text", ["", "x", "version=1\nbroker.epoch=1\nboot.id=a\n", "version=0\nboot.id=a\n", "\xff"])
def test_what_cannot_be_understood_is_not_there(tmp_path: Path, text: str) -> None:
    (tmp_path / REGISTRATION_FILE).write_bytes(text.encode("latin-1"))
    assert read_registration(DISK, str(tmp_path)) is None
    assert read_registration(DISK, str(tmp_path / "none")) is None


@pytest.mark.spec("P5")
def test_a_directory_of_an_older_registration_claims_nothing(tmp_path: Path) -> None:
    """A backup of one of two directories was put back."""
    machine = Machine(tmp_path, directories=2)
    registrations = machine.start()
    for number, directory in enumerate(machine.store.directories):
        machine.store.create(TopicPartition(f"t{number}", 0), UUID(int=7 + number), LogConfig(), directory)
    registrations.write(41)
    copied = (Path(machine.paths[1]) / REGISTRATION_FILE).read_bytes()
    registrations.write(52)
    machine.kill()
    (Path(machine.paths[1]) / REGISTRATION_FILE).write_bytes(copied)
    with capture_logs() as logs:
        registrations = machine.start()
    assert [line["path"] for line in logs if line["event"] == "log directory is of an older registration"] == [
        machine.paths[1]
    ]
    assert (registrations.previous_broker_epoch, registrations.recorded_broker_epoch) == (52, 52)
    assert registrations.whole_replicas() == {UUID(int=7): (0,)}
    registrations.write(60)
    machine.kill()
    assert set(machine.start().whole_replicas()) == {UUID(int=7), UUID(int=8)}, "it has registered without it"


@pytest.mark.spec("P2")
def test_what_the_directories_name_is_told_whatever_was_lost(machine: Machine) -> None:
    assert machine.start().recorded_broker_epoch == -1
    Registrations(DISK, machine.store, "boot-1").write(41)
    machine.kill()
    machine.boot_id = "boot-2"
    registrations = machine.start()
    assert (registrations.previous_broker_epoch, registrations.recorded_broker_epoch) == (-1, 41)


@pytest.mark.spec("P1")
@pytest.mark.parametrize(("failed", "said"), [([1], 1), ([0], 0), ([0, 1], 0)])
def test_a_node_that_ends_does_not_say_that_its_directories_failed(
    tmp_path: Path, failed: list[int], said: int
) -> None:
    """A last heartbeat took its replicas out of the ELR; if they failed for want of room, they had all that counts."""
    machine = Machine(tmp_path, directories=2)
    registrations = machine.start()
    machine.store.create(METADATA_PARTITION, CLUSTER_METADATA_TOPIC_ID, LogConfig(), machine.store.directories[0])
    for at in failed:
        machine.store.directories[at].fail(StorageFailure("full", is_full=True))
    assert len(registrations.failed_directories()) == said


@pytest.mark.spec("P5", "R12")
def test_a_directory_that_failed_is_remembered_when_the_node_registers_again(tmp_path: Path) -> None:
    """The process lives on and registers under another epoch; then the file system of that directory is not mounted."""
    machine = Machine(tmp_path, directories=2)
    registrations = machine.start()
    registrations.write(41)
    failed = machine.store.directories[1]
    failed.fail(StorageFailure("EIO"))
    registrations.forget(failed)
    registrations.write(52)
    found = read_registration(DISK, machine.paths[0])
    assert found is not None
    assert list(found.paths) == machine.paths
    machine.kill()
    machine.unmount(1)
    assert len(machine.start().online_directories()) == 1


@pytest.mark.spec("P5", "R12")
@pytest.mark.parametrize(("first", "then"), [("", "/"), ("/", ""), ("", "relative"), ("relative", "")])
def test_a_directory_is_missed_however_its_path_is_spelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, then: str
) -> None:
    monkeypatch.chdir(tmp_path)
    machine = Machine(tmp_path, directories=2)
    path = machine.paths[1]
    machine.paths[1] = "d1" if first == "relative" else path + first
    machine.start().write(41)
    machine.kill()
    machine.paths[1] = path
    machine.unmount(1)
    machine.paths[1] = "d1" if then == "relative" else path + then
    registrations = machine.start()
    assert len(registrations.online_directories()) == 1
    registrations.write(42)
    machine.kill()
    machine.paths[1] = path
    assert len(machine.start().online_directories()) == 1, "it is remembered under the spelling of the last start, too"


@pytest.mark.spec("P6", "R12")
def test_a_directory_whose_names_cannot_be_opened_costs_itself_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path, directories=2)
    machine.start().write(41)
    machine.kill()
    open_names = OsDisk.open_names

    def refuse(disk: OsDisk, path: str) -> NamesFile:
        if path == machine.paths[1]:
            raise OSError(errno.EIO, "as if a read had failed", path)
        return open_names(disk, path)

    monkeypatch.setattr(OsDisk, "open_names", refuse)
    registrations = machine.start()
    assert [directory.failure is None for directory in machine.store.directories] == [True, False]
    assert registrations.previous_broker_epoch == 41
    registrations.write(42)
    assert not registrations.claim(frozenset({UUID(int=7)})).must_repeat
