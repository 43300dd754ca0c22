"""What a process gathers before it makes a node; that it then runs is proved on real processes in tests/cluster."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn
from uuid import UUID

import pytest
from captured_logs import capture_logs

from minikafka.broker import run
from minikafka.broker.__main__ import INTERRUPTED, main
from minikafka.broker.credentials import secret_of
from minikafka.broker.node import Node
from minikafka.config import ConfigError
from minikafka.storage.disk import OsDisk
from minikafka.storage.meta import DirectoryMeta, MetaError, parse_uuid, write_meta


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {})


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """Afterwards as they were: in a shell's job ``&``, which does not hear SIGINT, uvloop leaves one of its own."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("name", ["node.properties", "node.toml"])
def test_the_nearer_the_stronger(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """File, then environment, then what the command line says. A mark at the beginning of the file hides no line."""
    file = tmp_path / name
    quote = '"' if name.endswith("toml") else ""
    lines = [f"{quote}{key}{quote} = {value}" for key, value in {"node.id": 3, "num.partitions": 4}.items()]
    lines.append(f"{quote}default.replication.factor{quote} = 1")
    file.write_text("\n".join(lines), encoding="utf-8-sig")
    monkeypatch.setattr("os.environ", {"MINIKAFKA_NUM_PARTITIONS": "5", "MINIKAFKA_DEFAULT_REPLICATION_FACTOR": "2"})
    config = run.load_config(str(file), ["default.replication.factor=3"])
    assert (config.node_id, config.num_partitions, config.default_replication_factor) == (3, 5, 3)


def test_without_a_file_there_are_defaults() -> None:
    assert run.load_config(None, []).node_id == 1


def test_what_is_no_setting_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'num.partitions' is not NAME=VALUE"):
        run.load_config(None, ["num.partitions"])
    with pytest.raises(ConfigError, match=r"cannot read .*absent: No such file"):
        run.load_config(str(tmp_path / "absent"), [])
    (tmp_path / "image.properties").write_bytes(b"\x89PNG\r\n")
    with pytest.raises(ConfigError, match=r"cannot read .*image.properties: it is not UTF-8 text"):
        run.load_config(str(tmp_path / "image.properties"), [])


def test_a_configuration_that_is_wrong_ends_the_process_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.run_node(None, ["num.partitions=none"]) == 2
    assert capsys.readouterr().err.startswith("minikafka broker: ")


def test_a_start_on_a_full_disk_says_what_to_do() -> None:
    assert run.why(OSError(errno.ENOSPC, "No space left on device")).endswith("make room on it, then restart this node")
    assert run.why(OSError(errno.EIO, "Input/output error")).endswith("Input/output error")


def test_a_secret_is_read_from_its_file_or_taken_as_it_is_given(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_bytes(b"a secret of some length\n")
    assert secret_of(run.load_config(None, [f"cluster.secret.file={file}"])) == b"a secret of some length"
    assert secret_of(run.load_config(None, ["cluster.secret=another one of some length"])).startswith(b"another")
    first, second = (secret_of(run.load_config(None, [])) for _ in range(2))
    assert first != second, "a single node proves itself to nobody"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("node.id=1\ncluster.secret=a secret of some length", "cluster.secret"),
        (
            "listeners=CLIENT://h:1,REPLICATION://h:2,CONTROLLER://h:3\nlistener.name.client.plain.sasl.jaas.config="
            'org.apache.kafka.common.security.plain.PlainLoginModule required user_a="b";',
            "listener.name.client.plain.sasl.jaas.config",
        ),
        ("node.id=1\nssl.key.password=", None),
    ],
)
def test_it_is_said_that_others_may_read_the_secrets_in_a_nodes_own_file(
    text: str, secret: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def started(*_: object) -> int:
        return 0

    monkeypatch.setattr(run, "_run", started)
    monkeypatch.setattr(run.Heap, "of_process", lambda: None)
    for name in ("keep_standard_descriptors", "configure_logging", "raise_limit"):
        monkeypatch.setattr(run, name, lambda **_: None)
    file = tmp_path / "node.properties"
    file.write_text(text)
    for mode, said in ((0o644, [secret] if secret else []), (0o600, [])):
        file.chmod(mode)
        with capture_logs() as logs:
            assert run.run_node(str(file), []) == 0
        assert [each["setting"] for each in logs if each["event"] == "others may read a secret"] == said
        assert not logs or logs[0]["path"] == str(file)


@pytest.mark.parametrize("is_told", [True, False])
def test_a_node_begins_anew_unless_it_is_told_to_end(is_told: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It did in spite of SIGTERM, and whoever had stopped it waited for its end."""

    async def serve(node: Node, **_: object) -> int:
        if is_told:
            os.kill(os.getpid(), signal.SIGTERM)
            await node.stopped.wait()
        return run.START_AGAIN

    def begin_anew(*_: object) -> NoReturn:
        raise SystemExit("anew")

    monkeypatch.setattr(run.Heap, "of_process", lambda: None)
    for name in ("keep_standard_descriptors", "configure_logging", "raise_limit"):
        monkeypatch.setattr(run, name, lambda **_: None)
    monkeypatch.setattr(run, "make_node", lambda *_: SimpleNamespace(stopped=asyncio.Event()))
    monkeypatch.setattr(run, "serve", serve)
    monkeypatch.setattr(os, "execv", begin_anew)
    with nullcontext() if is_told else pytest.raises(SystemExit, match="anew"):
        assert run.run_node(None, []) == 1


def test_ctrl_c_before_the_node_hears_of_it_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **_more: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "run_node", interrupted)
    assert main([]) == INTERRUPTED


def test_a_secret_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the cluster secret has 5 bytes; it needs 16"):
        secret_of(run.load_config(None, ["cluster.secret=short"]))
    with pytest.raises(ConfigError, match=r"cluster.secret.file /nowhere: No such file"):
        secret_of(run.load_config(None, ["cluster.secret.file=/nowhere"]))


def test_a_single_node_keeps_the_cluster_id_that_it_made(tmp_path: Path) -> None:
    config = run.load_config(None, [f"log.dirs={tmp_path / 'a'},{tmp_path / 'b'}"])
    first, second = (run._single_node_cluster_id(config, OsDisk()) for _ in range(2))
    assert first != second
    assert parse_uuid(first)
    (tmp_path / "b").mkdir()
    write_meta(OsDisk(), str(tmp_path / "b"), DirectoryMeta("kept", 1, UUID(int=7)))
    assert run._single_node_cluster_id(config, OsDisk()) == "kept"


def test_a_directory_that_cannot_be_read_does_not_hide_the_cluster_id(tmp_path: Path) -> None:
    """Finding: it kept the node from starting. Nor is an id made while it may have one."""
    config = run.load_config(None, [f"log.dirs={tmp_path / 'a'},{tmp_path / 'b'}"])
    (tmp_path / "a/meta.properties").mkdir(parents=True)
    with pytest.raises(MetaError, match=r"a/meta.properties'; put the file back, or move"):
        run._single_node_cluster_id(config, OsDisk())
    (tmp_path / "b").mkdir()
    write_meta(OsDisk(), str(tmp_path / "b"), DirectoryMeta("kept", 1, UUID(int=7)))
    assert run._single_node_cluster_id(config, OsDisk()) == "kept"


def test_the_boot_id_is_the_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "boot_id"
    monkeypatch.setattr(run, "BOOT_ID_FILE", str(file))
    assert run._boot_id() is None
    file.write_text("\n")
    assert run._boot_id() is None
    file.write_text("3c9e1f0a\n")
    assert run._boot_id() == "3c9e1f0a"
