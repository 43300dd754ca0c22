"""Parts of a node for its handlers: a handler names the parts that it needs by type, and gets no others.

The parameters of a handler after the request and its context are parts::

    def handle(request: ListGroupsRequest, context: RequestContext, groups: Groups) -> ListGroupsResponse: ...

A part that consists of other parts is a dataclass; its fields are found in the same way.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, partial
from typing import Any, Final, TypeVar, cast, get_type_hints

T = TypeVar("T")

CONTEXT: Final = "context"


class Parts:
    """The parts of one node by type. Made by the composition root."""

    def __init__(self, *parts: object) -> None:
        self._parts = parts
        self._found: dict[type, object] = {}

    def given(self, handler: Callable[..., T]) -> Callable[..., T]:
        """``handler`` with its parts, to be called with the request and the context."""
        named = _parts_of_handler(handler)
        return partial(handler, **{name: self.part(wanted) for name, wanted in named.items()}) if named else handler

    def part(self, wanted: type[T]) -> T:
        """The part of that type, or one made of others. Raises LookupError for a type that is neither."""
        if wanted in self._found:
            return cast(T, self._found[wanted])
        for part in self._parts:
            if isinstance(part, wanted):
                self._found[wanted] = part
                return part
        if not is_dataclass(wanted):
            raise LookupError(f"a node has no part of the type {wanted.__qualname__}")
        return wanted(**{name: self.part(of_field) for name, of_field in _parts_of_dataclass(wanted).items()})


# Each annotation is compiled when it is read: with that for every node, a process of many nodes, as tests have them,
# would take most of a node's making for it.


@cache
def _parts_of_handler(handler: Callable[..., object]) -> Mapping[str, type]:
    names = list(inspect.signature(handler).parameters)
    named = names[names.index(CONTEXT) + 1 :]
    types = get_type_hints(handler) if named else {}
    return {name: types[name] for name in named}


@cache
def _parts_of_dataclass(wanted: Any) -> Mapping[str, type]:
    types = get_type_hints(wanted)
    return {field.name: types[field.name] for field in fields(wanted)}
