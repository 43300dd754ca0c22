"""The image can be built from what the build is given: ``.dockerignore`` leaves out whatever it does not name."""

from __future__ import annotations

import tomllib
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[3]


def copied() -> list[str]:
    """What the Dockerfile takes from this directory."""
    lines = [line.split() for line in (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()]
    copies = [words[1:-1] for words in lines if words[:1] == ["COPY"] and not words[1].startswith("--from")]
    return [source.removeprefix("./") for sources in copies for source in sources]


def test_what_is_copied_is_there() -> None:
    missing = [source for source in copied() if not (ROOT / source).exists()]
    assert not missing


def test_what_is_copied_is_given_to_the_build() -> None:
    nothing, *patterns = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert nothing == "*"
    given = [pattern.removeprefix("!") for pattern in patterns if pattern.startswith("!")]
    left_out = [source for source in copied() if not any(fnmatch(source, pattern) for pattern in given)]
    assert not left_out, f".dockerignore keeps {left_out} from the build"


def test_all_of_the_package_is_copied() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]
    parts = {*wheel["wheel"]["packages"], *wheel["wheel"]["force-include"]}
    assert parts <= set(copied())
