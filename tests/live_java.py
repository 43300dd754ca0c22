"""Programs in Java for tests: compiled for each run, with the libraries that Maven keeps on this machine."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

VERSION: Final = "4.3.1"
FAST: Final = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")

_REPOSITORY: Final = Path.home() / ".m2" / "repository"
_LOGGING: Final = "org/slf4j/slf4j-api/1.7*/*.jar"


def libraries_of_clients(version: str) -> tuple[str, ...]:
    """What Java's clients of a version need."""
    return (f"org/apache/kafka/kafka-clients/{version}/kafka-clients-{version}.jar", _LOGGING)


LIBRARIES_OF_CLIENTS: Final = libraries_of_clients(VERSION)
LIBRARIES_OF_TOKENS: Final = tuple(
    f"com/fasterxml/jackson/core/jackson-{part}/*/*.jar" for part in ("annotations", "core", "databind")
)
LIBRARIES_OF_CODECS: Final = (
    "at/yawk/lz4/lz4-java/*/*.jar",
    "org/xerial/snappy/snappy-java/*/*.jar",
    "com/github/luben/zstd-jni/*/*.jar",
)


class NotHereError(Exception):
    """A program, a compiler or a library is not on this machine."""


def compiled(directory: Path, program: Path, libraries: Sequence[str], *artifacts: str) -> str:
    """Compile a program into ``directory``. Returns its class path. Raises NotHereError, and says what to install.

    ``libraries`` are paths in Maven's repository; the ``artifacts`` bring them, with all that they need.
    """
    if not shutil.which("javac"):
        raise NotHereError("javac is not installed; get it with: apt-get install openjdk-17-jdk-headless (Debian)")
    found = [sorted(_REPOSITORY.glob(pattern), key=_version) for pattern in libraries]
    for pattern, jars in zip(libraries, found, strict=True):
        if not jars:
            commands = " && ".join(f"mvn dependency:get -Dartifact={artifact}" for artifact in artifacts)
            raise NotHereError(f"{_REPOSITORY / pattern} not found; get it with: {commands}")
    fast = ("-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-proc:none", "-implicit:none")
    class_path = ":".join([str(directory), *(str(jars[-1]) for jars in found)])
    subprocess.run(("javac", *fast, "-cp", class_path, "-d", str(directory), str(program)), check=True)
    return class_path


def _version(jar: Path) -> Sequence[int]:
    """Of the directory that Maven keeps it in: 1.10.1 is newer than 1.2.0."""
    return [int(number) for number in re.findall(r"\d+", jar.parent.name)]
