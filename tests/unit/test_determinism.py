"""The same seed gives the same run: nothing under simulation takes time, chance or order from anywhere but its ports.

Read off the sources. Order is the hard part: a set of strings or of objects is iterated in another order in each
process, so where order can reach behaviour, dicts stand in for sets, or they are sorted first.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import minikafka

ROOT = Path(minikafka.__file__).parent
PACKAGES = (
    *(
        "broker",
        "client",
        "net",
        "storage",
        "groups",
        "replication",
        "raft",
        "metadata",
        "timing",
        "records",
        "wire",
        "sasl",
        "security",
    ),
    *("config", "model.py", "errors.py"),
)

FORBIDDEN_CALLS = {
    "uuid.uuid1",
    "uuid.uuid4",
    "os.urandom",
    "os.getpid",
    "os.getrandom",
    "id",
    "hash",
    "asyncio.to_thread",
}
FORBIDDEN_MODULES = {"time", "random", "secrets", "threading", "datetime"}
HARMLESS = {"random.Random"}  # as a type; to make one is a call

COMPOSITION_ROOTS = {
    "broker/run.py": {"random.Random()", "uuid.uuid4", "time.time", "time.sleep"},
    "broker/credentials.py": {"os.urandom"},  # run.py reads them there
    "broker/node.py": {"os.urandom"},  # the default nonce
    "broker/clock.py": {"time.time", "time.perf_counter"},  # the default clocks
    "broker/logs.py": {"time.monotonic"},  # how long a real reader of the log is waited for; run.py writes there
    "broker/tls.py": {"time.time"},  # OpenSSL has no other clock
    "broker/loop_watch.py": {  # watches a process's loop; run.py starts it, no simulation does
        "threading.Event",
        "threading.Thread",
        "threading.get_ident",
        "time.monotonic",
        "time.thread_time",
    },
    "client/producer.py": {"random.Random()", "time.time"},
    "client/consumer.py": {"random.Random()"},
    "client/admin/base.py": {"random.Random()"},
    "client/security.py": {"os.urandom"},  # a nonce
    "client/tokens.py": {"asyncio.to_thread", "time.time"},  # asks those who issue tokens, or reads a file
    "net/web.py": {"time.monotonic"},  # in a thread of a node, or a process, of its own: the simulation reads no pages
    "storage/small_file.py": {"threading.Lock"},  # held for a rename, during which no simulated job waits
}


def sources() -> Iterator[tuple[str, str]]:
    """(path below the package, source)"""
    for package in PACKAGES:
        where = ROOT / package
        for path in [where] if where.is_file() else sorted(where.rglob("*.py")):
            yield str(path.relative_to(ROOT)), path.read_text()


class Uses(ast.NodeVisitor):
    """What a module uses of the modules that know time and chance, under their full names."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.found: set[str] = set()

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.names[alias.asname or alias.name] = alias.name

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            self.names[alias.asname or alias.name] = f"{node.module}.{alias.name}"

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name != "__hash__":  # what dicts and sets make of it is looked at below
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if self._full_name(node.func) == "random.Random":
            self.found.add("random.Random()")
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._note(self._full_name(node))
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._note(self.names.get(node.id, node.id))

    def _note(self, name: str | None) -> None:
        module, dot, _ = (name or "").partition(".")
        if name in FORBIDDEN_CALLS or (dot and module in FORBIDDEN_MODULES and name not in HARMLESS):
            assert name is not None
            self.found.add(name)

    def _full_name(self, node: ast.expr) -> str | None:
        if isinstance(node, ast.Name):
            return self.names.get(node.id)
        if isinstance(node, ast.Attribute) and (base := self._full_name(node.value)) is not None:
            return f"{base}.{node.attr}"
        return None


def uses(source: str) -> set[str]:
    visitor = Uses()
    visitor.visit(ast.parse(source))
    return visitor.found


def test_time_and_chance_are_handed_in() -> None:
    taken = {name: found for name, source in sources() if (found := uses(source)) - COMPOSITION_ROOTS.get(name, set())}
    assert not taken, "they take it from the process"


def test_the_list_of_composition_roots_has_nothing_too_much() -> None:
    for name, allowed in COMPOSITION_ROOTS.items():
        assert uses((ROOT / name).read_text()) == allowed, name


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import time\ntime.monotonic()", {"time.monotonic"}),
        ("from time import time as now\nnow()", {"time.time"}),
        ("import random\nrandom.shuffle(x)", {"random.shuffle"}),
        ("import random\ndef f(rng: random.Random) -> None: rng.shuffle(x)", set()),
        ("import random\nrng = random.Random()", {"random.Random()"}),
        ("from random import Random\nrng = Random()", {"random.Random()"}),
        ("from uuid import UUID, uuid4\nUUID(int=1); uuid4()", {"uuid.uuid4"}),
        ("import os\nx = os.urandom", {"os.urandom"}),
        ("key = id(x)", {"id"}),
        ("self.id(x)", set()),
        ("class A:\n  def __hash__(self): return hash(self.x)\n  def f(self): return hash(self)", {"hash"}),
        ("class A:\n  def __hash__(self): return hash(self.x)", set()),
        ("from datetime import datetime\ndatetime.now()", {"datetime.datetime", "datetime.datetime.now"}),
    ],
)
def test_a_use_of_the_clock_or_of_chance_is_found(source: str, found: set[str]) -> None:
    assert uses(source) == found


# -- order ------------------------------------------------------------------------------------------------------------

ORDERLESS = {"set", "frozenset", "WeakSet", "AbstractSet", "Set"}
INTO_ORDER = {"list", "tuple", "iter", "enumerate", "map", "filter", "zip", "dict", "reversed"}
WITHOUT_ORDER = {"sorted", "set", "frozenset", "any", "all", "sum", "min", "max", "len", "update"}

ORDER_DOES_NOT_MATTER = {
    "metadata/delta.py": {"partitions"},  # they are in a dict
    "replication/leader.py": {"self._isr.committed - {local_id}"},  # numbers
    "storage/log_store.py": {"epochs"},  # numbers
}


class Orders(ast.NodeVisitor):
    """Iterations over what the module itself says is a set (of other than ints) where the order may be noticed."""

    def __init__(self, tree: ast.Module) -> None:
        self.sets: set[str] = set()
        self.found: list[str] = []
        for node in ast.walk(tree):
            if isinstance(node, ast.AnnAssign | ast.arg) and node.annotation is not None:
                if _is_set_type(node.annotation):
                    self.sets.add(_last_name(node.target if isinstance(node, ast.AnnAssign) else node))
            elif isinstance(node, ast.Assign) and self._is_set(node.value):
                self.sets.update(name for target in node.targets if (name := _last_name(target)))
        self.visit(tree)

    def visit_For(self, node: ast.For) -> None:
        self._check(node.iter)
        self.generic_visit(node)

    def visit_ListComp(self, node: ast.ListComp) -> None:
        self._check_generators(node)

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self._check_generators(node)

    def visit_Starred(self, node: ast.Starred) -> None:
        self._check(node.value)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = _last_name(node.func)
        for argument in node.args:
            if isinstance(argument, ast.GeneratorExp) and called not in WITHOUT_ORDER:
                self._check_generators(argument)
            elif called in INTO_ORDER:
                self._check(argument)
        if called == "pop" and not node.args and isinstance(node.func, ast.Attribute):
            self._check(node.func.value)
        self.generic_visit(node)

    def _check_generators(self, node: ast.ListComp | ast.DictComp | ast.GeneratorExp) -> None:
        for generator in node.generators:
            self._check(generator.iter)
        self.generic_visit(node)

    def _check(self, iterated: ast.expr) -> None:
        if self._is_set(iterated) or _last_name(iterated) in self.sets:
            self.found.append(_last_name(iterated) or ast.unparse(iterated))

    def _is_set(self, node: ast.expr) -> bool:
        if isinstance(node, ast.BinOp):
            return self._is_set(node.left) or self._is_set(node.right)
        if isinstance(node, ast.IfExp):
            return self._is_set(node.body) or self._is_set(node.orelse)
        made = isinstance(node, ast.Call) and _last_name(node.func) in ORDERLESS
        return made or isinstance(node, ast.Set | ast.SetComp)


def _is_set_type(annotation: ast.expr) -> bool:
    """``set[str]`` and such, but not of ints (these are iterated in the same order by every process), nor None."""
    if isinstance(annotation, ast.BinOp):
        return _is_set_type(annotation.left) or _is_set_type(annotation.right)
    if not isinstance(annotation, ast.Subscript) or _last_name(annotation.value) not in ORDERLESS:
        return False
    return _last_name(annotation.slice) != "int"


def _last_name(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
            return name
    return ""


def disorder(source: str) -> set[str]:
    return set(Orders(ast.parse(source)).found)


def test_order_does_not_come_from_sets() -> None:
    found = {name: names for name, source in sources() if (names := disorder(source))}
    assert found == ORDER_DOES_NOT_MATTER


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("for x in {y.name for y in z}: pass", {"{y.name for y in z}"}),
        ("a: set[str] = set()\nfor x in a: pass", {"a"}),
        ("a: set[int] = {1}\nb = list(a)", set()),
        ("self.a: set[str] = set()\nb = [*self.a]", {"a"}),
        ("def f(a: frozenset[str] | None): return [x for x in a]", {"a"}),
        ("def f(a: frozenset[str]): return sorted(x for x in a), any(x for x in a)", set()),
        ("def f(a: set[str]): return tuple(x for x in a)", {"a"}),
        ("def f(a: set[str]): return {x: 1 for x in a}", {"a"}),
        ("def f(a: set[str]): return {x + 'b' for x in a}", set()),
        ("b = set(c) if c else set()\nlist(b)", {"b"}),
        ("list(set(c) - d)", {"set(c) - d"}),
        ("def f(a: set[str]): return a.pop()", {"a"}),
        ("a['b'] = set(c)\nlist(d.e())", set()),
    ],
)
def test_what_disorder_is_found(source: str, found: set[str]) -> None:
    assert disorder(source) == found
