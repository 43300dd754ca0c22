"""Clients of other languages: a program each, in ``programs/``, that tries every feature its client has.

A program gets the servers and a prefix for its topics, and in variables what a secure node wants (``compat_secure``).
It prints its client's version, and of each feature "ok" or what went wrong, in lines of JSON. A feature of which it
says nothing is one that its client does not have.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from live_java import (
    FAST,
    LIBRARIES_OF_CODECS,
    LIBRARIES_OF_TOKENS,
    VERSION,
    NotHereError,
    compiled,
    libraries_of_clients,
)

SOURCES: Final = Path(__file__).with_name("programs")
BUILT: Final = Path(sys.prefix) / "clients"
TIME_TO_RUN_S: Final = 600.0


@dataclass(frozen=True)
class Program:
    """How to build a client's program in a copy of its folder, and how to start it there."""

    compiler: str
    build: Sequence[str]
    start: Sequence[str]
    is_dear: bool = False  # to build: a minute of CPU time and more, when nothing is cached

    def built(self, client: str) -> Sequence[str]:
        """Its command, after it was built if need be. Raises NotHereError, and says what is missing."""
        compiler = shutil.which(self.compiler, path=f"{os.environ['PATH']}:/usr/local/go/bin")
        if compiler is None:
            raise NotHereError(f"{self.compiler} is not installed: {client} is not tried")
        directory = BUILT / client
        stamp, wanted = directory / "built-from", _digest(SOURCES / client)
        if not stamp.exists() or stamp.read_text() != wanted:
            if self.is_dear and os.environ.get("CLIENTS") != "all":
                raise NotHereError(f"{client} takes a minute to build: CLIENTS=all builds and tries it")
            shutil.copytree(SOURCES / client, directory, dirs_exist_ok=True)
            pipe = subprocess.PIPE
            build = subprocess.run((compiler, *self.build), cwd=directory, stdout=pipe, stderr=subprocess.STDOUT)
            if build.returncode:
                raise NotHereError(f"{client} cannot be built here: {build.stdout.decode(errors='replace')[-2000:]}")
            stamp.write_text(wanted)
        return [word.format(directory=directory) for word in self.start]


@dataclass(frozen=True)
class JavaProgram:
    """The one in Java, with clients of some version. Its libraries are where Maven keeps them."""

    version: str

    def built(self, client: str) -> Sequence[str]:
        """Its command, as of a :class:`Program`."""
        directory = BUILT / client
        directory.mkdir(parents=True, exist_ok=True)
        libraries = (*libraries_of_clients(self.version), *LIBRARIES_OF_CODECS, *LIBRARIES_OF_TOKENS)
        wanted = (
            f"org.apache.kafka:kafka-tools:{VERSION}",  # and what clients need for some features
            f"org.apache.kafka:kafka-clients:{self.version}",
        )
        class_path = compiled(directory, SOURCES / "Java" / "EveryFeature.java", libraries, *wanted)
        return ["java", *FAST, "-cp", class_path, "EveryFeature"]


PROGRAMS: Final[Mapping[str, Program | JavaProgram]] = {
    "Java": JavaProgram(VERSION),
    "Java 3.7": JavaProgram("3.7.2"),
    "kafkajs": Program(
        "npm", ("ci", "--no-audit", "--no-fund", "--ignore-scripts"), ("node", "{directory}/every_feature.js")
    ),
    "franz-go": Program("go", ("build", "-o", "every-feature", "."), ("{directory}/every-feature",), is_dear=True),
    "rskafka": Program("cargo", ("build",), ("{directory}/target/debug/every-feature",), is_dear=True),
}
LONG: Final = ("Java 3.7",)
"""Who is left to ``make test-long``, because others try most of what it tries."""


def _digest(folder: Path) -> str:
    """Of all its files."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(folder)} {path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


@dataclass
class Report:
    """What a program told."""

    prefix: str
    version: str = ""
    outcomes: dict[str, str] = field(default_factory=dict)


def report_of(client: str, servers: str, variables: Mapping[str, str]) -> Report:
    """Run a client's program. Raises NotHereError if that cannot be here; fails if it breaks off."""
    command = PROGRAMS[client].built(client)
    report = Report(client.lower().replace(" ", "-"))
    environment = {**os.environ, **variables}
    ended = subprocess.run(
        (*command, servers, report.prefix), capture_output=True, text=True, timeout=TIME_TO_RUN_S, env=environment
    )
    for line in map(json.loads, ended.stdout.splitlines()):
        if "version" in line:
            report.version = line["version"]
        else:
            report.outcomes[line["feature"]] = line["outcome"]
    assert ended.returncode == 0, ended.stderr[-2000:]
    return report
