"""Kafka's own clients in Java: a process for each thread of a load, ``ChaosClient.java``, which tells what happens."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections import deque
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread
from typing import IO, Final

from minikafka.chaos.layout import ClusterError
from minikafka.chaos.rounds.loads import Load, Worker
from minikafka.chaos.rounds.reading import CLIENT_ID
from minikafka.chaos.rounds.records import PARTITIONS, TOPIC
from minikafka.chaos.rounds.transaction_load import TRANSACTION_TIMEOUT_MS

_PROGRAM: Final = Path(__file__).with_name("ChaosClient.java")
_REPOSITORY: Final = Path.home() / ".m2" / "repository"
_CLIENTS: Final = "org/apache/kafka/kafka-clients/*/kafka-clients-*.jar"
_OTHERS: Final = ("org/slf4j/slf4j-api/1.7*/slf4j-api-*.jar",)
_FAST: Final = ("-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
_LAST_LINES: Final = 5
_NOTED: Final = "n"
_SENT: Final = "s"
_END: Final = "e"
_ARTIFACT: Final = "org.apache.kafka:kafka-clients:4.3.1"


class JavaClients:
    """See ``loads.Clients``. With the jars in CLASSPATH, or the newest in Maven's repository."""

    protocols = ("classic", "consumer")

    def __init__(self, directory: Path) -> None:
        """``directory``: of the compiled program. ClusterError says what to install."""
        if not (shutil.which("java") and shutil.which("javac")):
            raise ClusterError("--client java needs java and javac (17 or newer), for example openjdk-17-jdk-headless")
        jars, self.name = _jars()
        self.class_path = ":".join([str(directory), jars])
        compiler = ["javac", "-J-XX:TieredStopAtLevel=1", "-proc:none", "-cp", jars, "-d", str(directory)]
        compiled = subprocess.run([*compiler, str(_PROGRAM)], capture_output=True, text=True, check=False)
        if compiled.returncode:
            first = compiled.stderr.partition("\n")[0].rpartition(": error: ")[2]
            raise ClusterError(f"--client java could not be compiled with the {self.name}: {first}")

    def writer(self, name: str, load: Load, rate: float) -> Worker:
        """See ``loads.Clients``."""
        return JavaWorker(name, load, self.class_path, "writer", {"rate": f"{rate}"})

    def follower(self, name: str, load: Load, topic: str, *, committed: bool = False) -> Worker:
        """See ``loads.Clients``."""
        return JavaWorker(
            name, load, self.class_path, "follower", {"topic": topic, "committed": str(committed).lower()}
        )

    def member(self, name: str, load: Load, group: str, protocol: str) -> Worker:
        """See ``loads.Clients``."""
        return JavaWorker(name, load, self.class_path, "member", {"group": group, "protocol": protocol})

    def transactor(self, name: str, load: Load, rate: float) -> Worker:
        """See ``loads.Clients``."""
        own = {"rate": f"{rate}", "timeout.ms": str(TRANSACTION_TIMEOUT_MS)}
        return JavaWorker(name, load, self.class_path, "transactor", own)


class JavaWorker(Worker):
    """A thread with a process, whose events it notes."""

    def __init__(self, name: str, load: Load, class_path: str, kind: str, own: dict[str, str]) -> None:
        super().__init__(name, load)
        given = {
            "servers": load.cluster.servers,
            "topic": TOPIC,
            "partitions": str(PARTITIONS),
            "seed": str(load.rng.randrange(1 << 31)),
            "client.id": CLIENT_ID,
        } | own
        if load.cluster.config_file is not None:
            given["command.config"] = str(load.cluster.config_file)
        words = [f"{key}={value}" for key, value in given.items()]
        self._command = ["java", *_FAST, "-cp", class_path, "ChaosClient", kind, name, *words]
        self._lock = Lock()
        self._is_writer = kind in ("writer", "transactor")

    def work(self) -> None:
        pipe = subprocess.PIPE
        with subprocess.Popen(self._command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            last_lines: deque[str] = deque(maxlen=_LAST_LINES)
            threads = [
                Thread(target=self._tell, args=(process.stdin,), daemon=True),
                Thread(target=last_lines.extend, args=(process.stderr,), daemon=True),
            ]
            for each in threads:
                each.start()
            try:
                for line in process.stdout:
                    event = json.loads(line)
                    self.note(*event)
                    if event[1] == "invoke":
                        self._say(process.stdin, _NOTED)
            except BaseException:
                process.kill()
                raise
        threads[1].join()
        if process.returncode:
            raise ClusterError(f"{self.name}, a client in Java, ended with {_how(process)}:\n{''.join(last_lines)}")

    def _tell(self, stdin: IO[str]) -> None:
        """That nobody sends any more; and its own end. One that is abandoned is told nothing: it ends at once."""
        self.load.sending_is_over.wait()
        try:
            if not self._is_writer:
                self._say(stdin, _SENT)
                self.load.reading_is_over.wait()
            if not self.load.is_abandoned:
                self._say(stdin, _END)
            with self._lock:
                stdin.close()
        except BrokenPipeError:  # its process has ended
            pass

    def _say(self, stdin: IO[str], word: str) -> None:
        with self._lock, suppress(BrokenPipeError, ValueError):  # its process has ended, or is to end
            stdin.write(word)
            stdin.flush()


def _how(process: subprocess.Popen[str]) -> str:
    number = process.returncode
    return f"exit code {number}" if number > 0 else signal.Signals(-number).name


def _jars() -> tuple[str, str]:
    """A class path, and what it is called."""
    if given := os.environ.get("CLASSPATH"):
        return given, "Java clients of CLASSPATH"
    found = sorted(_REPOSITORY.glob(_CLIENTS), key=lambda jar: [int(n) for n in re.findall(r"\d+", jar.parent.name)])
    others = [sorted(_REPOSITORY.glob(pattern)) for pattern in _OTHERS]
    if not found or not all(others):
        raise ClusterError(
            f"--client java needs Kafka's clients, in CLASSPATH or by: mvn dependency:get -Dartifact={_ARTIFACT}"
        )
    return ":".join(map(str, [found[-1], *(each[-1] for each in others)])), f"Java clients {found[-1].parent.name}"
