"""Errors are found wherever a response has them: compared with a look at every field of every response."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from minikafka.wire.api import ApiKey
from minikafka.wire.error_codes import errors_of
from minikafka.wire.messages.list_groups import ListGroupsResponse
from minikafka.wire.schema import Message, MessageType


def full(cls: MessageType, codes: Iterator[int]) -> Message:
    """A message with two elements in each array, and another code in each field for one."""
    fields: dict[str, Any] = {}
    for name, field in cls.SCHEMA.items():
        if is_code(name):
            fields[name] = next(codes)
        elif isinstance(field.type, MessageType):
            fields[name] = [full(field.type, codes) for _ in range(2)] if field.array else full(field.type, codes)
    message = cls(**fields)
    assert isinstance(message, Message)
    return message


def codes_in(value: object) -> list[int]:
    """By a look at everything."""
    if isinstance(value, list):
        return [code for element in value for code in codes_in(element)]
    if not isinstance(value, Message):
        return []
    own = [getattr(value, name) for name in value.SCHEMA if is_code(name)]
    return own + [code for name in value.SCHEMA for code in codes_in(getattr(value, name))]


def is_code(name: str) -> bool:
    """Whether a field tells of an error. (That the settings of a topic are not told is none.)"""
    return name.endswith("error_code") and name != "topic_config_error_code"


@pytest.mark.parametrize("key", list(ApiKey), ids=lambda key: key.camel_name)
def test_every_error_code_of_a_response_is_counted(key: ApiKey) -> None:
    response = full(key.response_class, count(1))
    assert sorted(errors_of(response)) == sorted(codes_in(response))


def test_success_is_no_error_and_an_array_may_be_null() -> None:
    assert errors_of(ListGroupsResponse(error_code=0)) == []
    for key in ApiKey:
        assert errors_of(key.response_class()) == []
