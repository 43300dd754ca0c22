"""Nothing that is lower in ``broker`` names what is above it, not even for type checking."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import minikafka.broker

PACKAGE = Path(minikafka.broker.__file__).parent
CIRCLE_MAX = 2


def modules() -> dict[str, Path]:
    """Path by module."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = ("minikafka", "broker", *path.relative_to(PACKAGE).with_suffix("").parts)
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


def imports() -> dict[str, set[str]]:
    """The modules of ``broker`` that each of them imports, wherever in it, ``if TYPE_CHECKING`` too."""
    known = modules()
    return {name: set(_imported(path, set(known))) - {name} for name, path in known.items()}


def _imported(path: Path, known: set[str]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                named = f"{node.module}.{alias.name}"
                yield from (name for name in (named, node.module) if name in known and name != "minikafka.broker")


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    ahead = [start]
    while ahead:
        for name in graph[ahead.pop()] - found:
            found.add(name)
            ahead.append(name)
    return found


def circles(graph: dict[str, set[str]]) -> set[frozenset[str]]:
    """Modules that import each other, in however many steps."""
    reached = {name: reachable(graph, name) for name in graph}
    found = (frozenset(other for other in reached[name] if name in reached[other]) for name in graph)
    return {circle for circle in found if len(circle) > 1}


def test_no_circle_of_imports_is_larger_than_two_files() -> None:
    large = [sorted(circle) for circle in circles(imports()) if len(circle) > CIRCLE_MAX]
    assert not large


def test_circles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert circles(graph) == {frozenset("abc"), frozenset("de")}
    assert "minikafka.broker.context" in imports()["minikafka.broker.dispatch"]
