"""A package's docstring is its map: it names every module."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

# Directories that say themselves what is there: a module for each API, or for each verb.
BY_NAME = {"minikafka/broker/handlers", "minikafka/wire/messages", "minikafka/cli/pipeline"}
PACKAGES = sorted(str(file.parent.relative_to(ROOT)) for file in (ROOT / "minikafka").rglob("__init__.py"))


@pytest.mark.parametrize("package", [package for package in PACKAGES if package not in BY_NAME])
def test_every_module_is_named(package: str) -> None:
    directory = ROOT / package
    text = ast.get_docstring(ast.parse((directory / "__init__.py").read_text(encoding="utf-8"))) or ""
    modules = {file.stem for file in directory.glob("*.py")} - {"__init__", "__main__"}
    packages = {file.parent.name for file in directory.glob("*/__init__.py")}
    missing = {name for name in modules | packages if not re.search(rf"\b{name}\b", text)}
    assert len(modules | packages) < 2 or not missing
