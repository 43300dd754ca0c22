"""Lets Spark start in two thirds of the time: Java maps its classes from an archive instead of loading them from jars.

When Spark starts, Java reads, verifies and links some 17,000 classes of 280 jars. ``make_archive`` does that once and
writes down the result ("class data sharing", JEP 310 and 350); ``start_session`` uses it from then on. An archive is
for one Java and one Spark. Java compares it with both, and leaves it unused when either was changed in place.
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
    """No archive could be made; the message says why."""


def archive_path(java_home: Path) -> Path:
    """Where the archive for a launcher's Java (``spark_java_home``) is, or would be: with the Python packages, so that
    it goes when they go."""
    import pyspark

    return Path(sys.prefix) / "share" / "minikafka" / f"spark-{pyspark.__version__}-{java_home.name}.jsa"


def sharing_options(java_home: Path) -> tuple[str, ...]:
    """What Java is started with to use the archive, if there is one. One that does not fit is left unused, quietly."""
    archive = archive_path(java_home)
    return (f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off") if archive.is_file() else ()


def make_archive() -> Path:
    """The archive for the Java and the Spark that ``start_session`` would take, made anew: about 200 MB.

    Takes a short job of Spark and as long again for writing. Raises NoJavaError without a Java, PrepareError when
    something else is in the way.
    """
    home = spark_java_home(os.environ)
    if home is None:
        raise PrepareError("a launcher for Java cannot be written; let XDG_CACHE_HOME name a directory where it can")
    archive = archive_path(home)
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=archive.parent, prefix="unfinished-") as directory:
            classes, unfinished = Path(directory) / "classes", Path(directory) / archive.name
            noted = _run([sys.executable, "-m", "minikafka.spark.typical_jobs", str(classes)])
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
        for old in archive.parent.glob("spark-*.jsa"):  # of a Java or a Spark that was updated since
            if old != archive:
                old.unlink(missing_ok=True)
    except OSError as error:
        raise PrepareError(f"{archive} cannot be written: {error.strerror}") from None
    return archive


def leave_out_generated(classes: Path) -> None:
    """Strike classes that Java generates as it goes from the list in a file.

    With them in an archive, Java 17 crashes under a flight recorder or an agent, which ask for the file of every class.
    """
    lines = classes.read_text().splitlines(keepends=True)
    classes.write_text("".join(line for line in lines if not _GENERATED.search(line)))


def _run(command: list[str]) -> str:
    """What the program wrote to stdout. Raises PrepareError with the last line of stderr when it failed."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
    except subprocess.TimeoutExpired:
        raise PrepareError(f"{command[0]} did not end within {_TIMEOUT_S:g} s") from None
    except subprocess.CalledProcessError as error:
        said = (error.stderr or error.stdout).strip().splitlines() or [f"it ended with {error.returncode}"]
        raise PrepareError(f"{command[0]}: {said[-1]}") from None
    return done.stdout
