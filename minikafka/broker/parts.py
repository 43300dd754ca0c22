"""Parts of a node for its handlers: a handler names the parts that it needs by type, and gets no others.

The parameters of a handler after the request and its context are parts::

    def handle(request: ListGroupsRequest, context: RequestContext, groups: Groups) -> ListGroupsResponse: ...

A part that consists of other parts is a dataclass; its fields are found in the same way.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Final, TypeVar, get_type_hints

T = TypeVar("T")

CONTEXT: Final = "context"


class Parts:
    """The parts of one node by type. Made by the composition root."""

    def __init__(self, *parts: object) -> None:
        self._parts = parts

    def given(self, handler: Callable[..., T]) -> Callable[..., T]:
        """``handler`` with its parts, to be called with the request and the context."""
        names = list(inspect.signature(handler).parameters)
        named = names[names.index(CONTEXT) + 1 :]
        if not named:
            return handler
        types = get_type_hints(handler)
        return partial(handler, **{name: self.part(types[name]) for name in named})

    def part(self, wanted: type[T]) -> T:
        """The part of that type, or one made of others. Raises LookupError for a type that is neither."""
        for part in self._parts:
            if isinstance(part, wanted):
                return part
        if not is_dataclass(wanted):
            raise LookupError(f"a node has no part of the type {wanted.__qualname__}")
        types = get_type_hints(wanted)
        return wanted(**{field.name: self.part(types[field.name]) for field in fields(wanted)})
