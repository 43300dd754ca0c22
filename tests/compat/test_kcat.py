"""kcat (librdkafka 2.0 from the distribution): a program without an admin client, so topics make themselves."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import IO, Any

import pytest
from compat_records import CODECS, EVERY_BYTE, PARTITIONS
from compat_secure import PASSWORD, SCRAM, USER, Secured
from live_cluster import PATIENCE_S, eventually

CLIENT = "kcat"

Start = Callable[..., "subprocess.Popen[bytes]"]
Run = Callable[..., bytes]


@pytest.fixture
def run(kcat: Start, servers: str) -> Run:
    """Runs kcat to its end; what it printed."""

    def run(*arguments: str, given: bytes = b"") -> bytes:
        process = kcat("-b", servers, *arguments)
        printed, complaints = process.communicate(given, PATIENCE_S)
        assert process.returncode == 0, complaints.decode()
        return printed

    return run


def consume(run: Run, topic: str, *arguments: str) -> list[dict[str, Any]]:
    """What kcat reads from the topic's first partition to its end, as it shows records in JSON."""
    printed = run("-C", "-q", "-t", topic, "-p", "0", "-e", "-J", "-Z", *arguments)
    return [json.loads(line) for line in printed.splitlines()]


@pytest.mark.feature("headers", "idempotence")
@pytest.mark.parametrize("compression", CODECS)
def test_records_come_back_byte_equal(
    run: Run, topic: str, stored_compressions: Callable[[str], set[str]], compression: str
) -> None:
    produce = ["-P", "-t", topic, "-p", "0", "-z", compression, "-X", "enable.idempotence=true"]
    run(*produce, "-K", ":", "-H", "color=blue", "-H", "empty=", given=b"key:value\n" * 200)
    run(*produce, "-Z", "-K", ":", given=b"gone:\n:keyless\n")

    records = consume(run, topic, "-o", "beginning")
    assert [record["offset"] for record in records] == list(range(202))
    assert {(record["key"], record["payload"]) for record in records[:200]} == {("key", "value")}
    assert records[0]["headers"] == ["color", "blue", "empty", ""]
    assert (records[200]["key"], records[200]["payload"]) == ("gone", None)
    assert (records[201]["key"], records[201]["payload"]) == (None, "keyless")
    assert compression in stored_compressions(topic)


def test_a_file_comes_back_byte_equal(run: Run, topic: str, tmp_path: Path) -> None:
    source = tmp_path / "every-byte"
    source.write_bytes(EVERY_BYTE * 2000)
    run("-P", "-t", topic, "-p", "0", "-z", "lz4", str(source))
    assert run("-C", "-q", "-t", topic, "-p", "0", "-e", "-D", "") == source.read_bytes()


@pytest.mark.feature("seek by time", "timestamps")
def test_it_seeks_by_timestamp(run: Run, topic: str) -> None:
    for number in range(3):  # one process after the other, so that their timestamps differ
        run("-P", "-t", topic, "-p", "0", given=b"%d\n" % number)
    first, second, third = (record["ts"] for record in consume(run, topic, "-o", "beginning"))
    assert first < second < third

    assert [record["payload"] for record in consume(run, topic, "-o", f"s@{second}")] == ["1", "2"]
    assert [record["payload"] for record in consume(run, topic, "-o", f"s@{second + 1}")] == ["2"]
    assert f"{topic} [0] offset 1" in run("-Q", "-t", f"{topic}:0:{first + 1}").decode()
    assert f"{topic} [0] offset 3" in run("-Q", "-t", f"{topic}:0:-1").decode()


def test_the_cluster_is_described(run: Run, topic: str) -> None:
    run("-P", "-t", topic, given=b"x\n")
    described = json.loads(run("-L", "-J"))
    assert sorted(broker["id"] for broker in described["brokers"]) == [1, 2, 3]
    assert described["controllerid"] in (1, 2, 3)
    (found,) = [each for each in described["topics"] if each["topic"] == topic]
    assert [len(partition["replicas"]) for partition in found["partitions"]] == [3] * PARTITIONS


class Member:
    """A kcat in a group: the lines that it prints, and what was assigned to it last."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.lines: list[str] = []
        self._remarks: list[str] = []
        self._threads = [
            Thread(target=self._collect, args=(process.stdout, self.lines), daemon=True),
            Thread(target=self._collect, args=(process.stderr, self._remarks), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @staticmethod
    def _collect(pipe: IO[bytes], lines: list[str]) -> None:
        for line in pipe:  # one by one: the lists are read meanwhile
            lines.append(line.decode().rstrip("\n"))  # noqa: PERF401

    @property
    def share(self) -> set[int]:
        changes = [line for line in self._remarks if "rebalanced" in line]
        last = changes[-1] if changes else ""
        return {int(number) for number in re.findall(r"\[(\d+)\]", last)} if "assigned:" in last else set()

    def leave(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(PATIENCE_S)
        for thread in self._threads:
            thread.join(PATIENCE_S)


@pytest.mark.feature("groups", "resume")
def test_a_group_of_two_rebalances(kcat: Start, run: Run, servers: str, topic: str) -> None:
    group = f"group-of-{topic}"

    def member() -> Member:
        settings = ["auto.offset.reset=earliest", "heartbeat.interval.ms=200", "session.timeout.ms=6000"]
        given = [word for setting in settings for word in ("-X", setting)]
        return Member(kcat("-b", servers, *given, "-u", "-f", "%s\n", "-G", group, topic))

    def produce_and_read(round_: int, *members: Member) -> None:
        """Every value comes to exactly one member."""
        expected = sorted(f"{round_}/{number}" for number in range(40))
        for partition in range(PARTITIONS):
            values = expected[partition::PARTITIONS]
            run("-P", "-t", topic, "-p", str(partition), given="".join(f"{value}\n" for value in values).encode())
        eventually(lambda: sum(len(member.lines) for member in members) >= 40, "40 records")
        assert sorted(value for member in members for value in member.lines) == expected
        for each in members:
            each.lines.clear()

    run("-L", "-t", topic, "-X", "allow.auto.create.topics=true")
    first = member()
    eventually(lambda: len(first.share) == PARTITIONS, "the first member to have all partitions")
    produce_and_read(1, first)

    second = member()
    eventually(lambda: [len(first.share), len(second.share)] == [2, 2], "two shares")
    assert first.share.isdisjoint(second.share)
    produce_and_read(2, first, second)

    second.leave()
    eventually(lambda: len(first.share) == PARTITIONS, "the first member to have all partitions again")
    produce_and_read(3, first)
    first.leave()

    third = member()
    eventually(lambda: len(third.share) == PARTITIONS, "a later member to have all partitions")
    produce_and_read(4, third)  # and nothing of what was committed before
    third.leave()


def said_in_vain(kcat: Start, *arguments: str) -> str:
    """What it says when it does not get in."""
    process = kcat("-L", "-m", "1", *arguments)
    _, complaints = process.communicate(b"", PATIENCE_S)
    assert process.returncode != 0
    return complaints.decode()


@pytest.mark.feature("TLS")
def test_it_shows_a_certificate(kcat: Start, topic: str, secured: Secured) -> None:
    how = ("-b", secured.tls, "-X", "security.protocol=ssl", "-X", f"ssl.ca.location={secured.authority}")
    assert "alert certificate required" in said_in_vain(kcat, *how)
    process = kcat("-P", "-t", topic, *how, *certified(secured.certificate))
    _, complaints = process.communicate(b"v\n", PATIENCE_S)
    assert process.returncode == 0, complaints.decode()
    assert "alert certificate expired" in said_in_vain(kcat, *how, *certified(secured.expired))
    assert "alert unknown ca" in said_in_vain(kcat, *how, *certified(secured.foreign))


def certified(file: str) -> list[str]:
    return ["-X", f"ssl.certificate.location={file}", "-X", f"ssl.key.location={file}"]


def login(secured: Secured, mechanism: str, *more: str, within_tls: bool = True) -> list[str]:
    trusting = ("security.protocol=sasl_ssl", f"ssl.ca.location={secured.authority}")
    how = trusting if within_tls else ("security.protocol=sasl_plaintext",)
    given = (*how, f"sasl.mechanism={mechanism}", *more)
    servers = secured.sasl if within_tls else secured.plain_sasl
    return ["-b", servers, *(word for each in given for word in ("-X", each))]


@pytest.mark.parametrize("within_tls", [True, False])
@pytest.mark.parametrize(
    ("mechanism", "right", "wrong"),
    [
        pytest.param(
            "PLAIN",
            (f"sasl.username={USER}", f"sasl.password={PASSWORD}"),
            (f"sasl.username={USER}", "sasl.password=wrong"),
            marks=pytest.mark.feature("PLAIN"),
        ),
        pytest.param(
            "OAUTHBEARER",
            ("enable.sasl.oauthbearer.unsecure.jwt=true", f"sasl.oauthbearer.config=principal={USER}"),
            ("enable.sasl.oauthbearer.unsecure.jwt=true", f"sasl.oauthbearer.config=principal={USER} lifeSeconds=0"),
            marks=pytest.mark.feature("OAUTHBEARER"),
        ),
    ],
)
def test_it_logs_in(
    kcat: Start,
    topic: str,
    secured: Secured,
    mechanism: str,
    right: tuple[str, ...],
    wrong: tuple[str, ...],
    within_tls: bool,
) -> None:
    process = kcat("-P", "-t", topic, *login(secured, mechanism, *right, within_tls=within_tls))
    _, complaints = process.communicate(b"v\n", PATIENCE_S)
    assert process.returncode == 0, complaints.decode()
    assert said_in_vain(kcat, *login(secured, mechanism, *wrong, within_tls=within_tls))


@pytest.mark.parametrize("mechanism", SCRAM)
def test_scram_is_refused_by_an_old_librdkafka_and_it_says_so(kcat: Start, secured: Secured, mechanism: str) -> None:
    """That of kcat in Debian 12: as with Apache Kafka 4, whose words do not say why."""
    given = kcat("-V").communicate(b"", PATIENCE_S)[0].decode()
    found = re.search(r"librdkafka (\d+)\.(\d+)\.(\d+)", given)
    assert found is not None
    if tuple(map(int, found.groups())) >= (2, 6, 1):
        pytest.skip("it is mended")
    said = said_in_vain(kcat, *login(secured, mechanism, f"sasl.username={USER}", f"sasl.password={PASSWORD}"))
    assert "the client repeats its nonce" in said
