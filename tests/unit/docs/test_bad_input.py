"""The table of bad input names tests that are there, and those beside an honest producer have one."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = ROOT / "docs/internals/bad-input.md"
ROWS: Final = [line[1:-1].split("|") for line in PAGE.read_text().splitlines() if line.startswith("| ")][1:]
UNHARMED: Final = {"target", "nodes_are_unharmed", "unharmed"}
"""What judges the nodes: fixtures, and what they are made of."""


@cache
def functions_of(module: str) -> dict[str, ast.AST]:
    tree = ast.parse((ROOT / "tests" / module).read_text())
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def named_in(cell: str) -> list[tuple[str, str]]:
    """Module and function."""
    return re.findall(r"`(\S+\.py)::(\w+)`", cell)


def test_there_are_rows() -> None:
    assert len(ROWS) > 25
    assert all(len(row) == 3 for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=[row[0][1:40] for row in ROWS])
def test_each_row_names_tests_that_are_there(row: list[str]) -> None:
    beside, elsewhere = map(named_in, row[1:])
    assert beside or elsewhere
    for module, function in beside + elsewhere:
        assert function in functions_of(module), f"{module} has no {function}"
    for module, function in beside:
        used = {node.id for node in ast.walk(functions_of(module)[function]) if isinstance(node, ast.Name)}
        given = {node.arg for node in ast.walk(functions_of(module)[function]) if isinstance(node, ast.arg)}
        marked = 'usefixtures("nodes_are_unharmed")' in (ROOT / "tests" / module).read_text()
        assert marked or UNHARMED & (used | given), f"{module}::{function} has no honest producer beside it"
