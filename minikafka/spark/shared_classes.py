"""Shortens Spark's start by a third: Java maps its classes from an archive instead of loading them from jars.

When Spark starts, Java reads, verifies and links some 17,000 classes of 280 jars. ``make_archive`` does that once and
stores the result ("class data sharing", JEP 310 and 350). ``start_session`` uses it from then on. An archive fits one
Java and one Spark. Java checks both and ignores an archive that does not fit.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from minikafka.spark.java import spark_java_home

_TIMEOUT_S: Final = 600.0  # it takes about 50 s
_GENERATED: Final = re.compile(r"^@lambda-form-invoker|\$Species_")


class PrepareError(Exception):
    """The archive could not be made. The message says why."""


def archive_path(java_home: Path) -> Path:
    """The path of the archive for a launcher's Java (``spark_java_home``). It lies with the Python packages and is
    deleted with them."""
    import pyspark

    return Path(sys.prefix) / "share" / "minikafka" / f"spark-{pyspark.__version__}-{java_home.name}.jsa"


def sharing_options(java_home: Path) -> tuple[str, ...]:
    """Java's options for the archive; empty without one. Java silently ignores an archive that does not fit."""
    archive = archive_path(java_home)
    return (f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off") if archive.is_file() else ()


def make_archive() -> Path:
    """Make the archive for the Java and the Spark of ``start_session``, about 200 MB; its path.

    Runs some short Spark jobs to see which classes they use, and writes those: about 50 s. Raises NoJavaError without a
    usable Java, and PrepareError for any other failure.
    """
    home = spark_java_home(os.environ)
    if home is None:
        raise PrepareError("the launcher for Java cannot be written; set XDG_CACHE_HOME to a writable directory")
    archive = archive_path(home)
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=archive.parent, prefix="unfinished-") as directory:
            classes, unfinished = Path(directory) / "classes", Path(directory) / archive.name
            noted = _run([sys.executable, "-P", "-m", "minikafka.spark.typical_jobs", str(classes)])
            class_path = noted.strip().splitlines()[-1]
            leave_out_generated(classes)
            _run(
                [
                    str(home / "bin" / "java"),
                    "-Xshare:dump",
                    f"-XX:SharedClassListFile={classes}",
                    f"-XX:SharedArchiveFile={unfinished}",
                    "-Xlog:disable",
                    "-Xlog:all=error:stderr",
                    "-cp",
                    class_path,
                ]
            )
            unfinished.replace(archive)
        for old in archive.parent.glob("spark-*.jsa"):  # for an older Java or Spark
            if old != archive:
                old.unlink(missing_ok=True)
    except OSError as error:
        raise PrepareError(f"{archive} cannot be written: {error.strerror}") from None
    return archive


def leave_out_generated(classes: Path) -> None:
    """Remove classes that Java generates at run time from the list in a file.

    A flight recorder or an agent asks for the file of every class. With generated classes in the archive, Java 17
    crashes then.
    """
    lines = classes.read_text().splitlines(keepends=True)
    classes.write_text("".join(line for line in lines if not _GENERATED.search(line)))


def _run(command: list[str]) -> str:
    """Run a program; its stdout. Raises PrepareError with the last line of stderr when it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
    except subprocess.TimeoutExpired:
        raise PrepareError(f"{command[0]} did not end within {_TIMEOUT_S:g} s") from None
    except subprocess.CalledProcessError as error:
        said = (error.stderr or error.stdout).strip().splitlines() or [f"it ended with {error.returncode}"]
        raise PrepareError(f"{command[0]}: {said[-1]}") from None
    return done.stdout
