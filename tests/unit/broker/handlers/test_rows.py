from __future__ import annotations

import pkgutil
import re
import runpy
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import get_type_hints

import pytest

from minikafka.broker import handlers
from minikafka.broker.authorization import ByHandler, Each, Need, Whole
from minikafka.broker.authorizer import Authorizer
from minikafka.broker.dispatch import AUTHENTICATION, handler_module
from minikafka.broker.parts import Parts
from minikafka.config.node import REPLICATION
from minikafka.wire.api import BROKERS, ApiKey

ROOT = Path(__file__).parents[4]
SERVED = [key for key in ApiKey if key.listeners - BROKERS]


def test_the_page_of_supported_apis_is_current() -> None:
    generator = runpy.run_path(str(ROOT / "tools" / "generate_protocol_support.py"))
    page = (ROOT / "docs" / "protocol-support.md").read_text()
    assert page == generator["page"](), "run: python tools/generate_protocol_support.py"


@pytest.mark.parametrize("key", SERVED, ids=lambda key: key.camel_name)
def test_a_handlers_module_says_its_api_and_versions(key: ApiKey) -> None:
    said = handler_module(key).__doc__
    assert said is not None
    first, last = key.versions
    versions = f"versions {first}-{last}" if first < last else f"version {first}"
    assert re.match(rf"{key.camel_name} \(key {int(key)}\), {versions}\b", said), said.split("\n")[0]


@pytest.mark.parametrize("key", SERVED, ids=lambda key: key.camel_name)
def test_a_handlers_module_says_what_rights_its_requests_need(key: ApiKey) -> None:
    module = handler_module(key)
    needs = module.AUTHORIZATION
    assert needs
    assert all(isinstance(need, Need) for need in needs)
    asks = Authorizer in _parts_of(getattr(module, "handle_frame", None) or getattr(module, "handle", None))
    assert asks or not any(isinstance(need, ByHandler) for need in needs)
    fields = key.request_class.SCHEMA
    for need in needs:
        assert not isinstance(need, Whole) or not need.field or need.field in fields
        assert not isinstance(need, Each) or fields[need.elements].array


def _parts_of(handler: Callable[..., object] | None) -> set[object]:
    """The parts that a handler is given, and those of which they consist."""
    found: set[object] = set()
    waiting = [] if handler is None else list(get_type_hints(handler).values())
    while waiting:
        if (each := waiting.pop()) not in found:
            found.add(each)
            waiting += get_type_hints(each).values() if is_dataclass(each) else ()
    return found


def test_no_handler_is_without_a_row_that_serves_it() -> None:
    named = {key.name.lower() for key in SERVED}
    for module in pkgutil.iter_modules(handlers.__path__):
        source = (Path(handlers.__file__).parent / f"{module.name}.py").read_text()
        assert (module.name in named) == bool(re.search(r"^(async )?def handle|^class Responses", source, re.M))


def test_what_brokers_ask_of_the_controller_alone_has_no_handler() -> None:
    asked = {key for key in ApiKey if key.listeners and key not in SERVED}
    assert {key.camel_name for key in asked} == {
        "AlterPartition",
        "BrokerRegistration",
        "BrokerHeartbeat",
        "AllocateProducerIds",
        "AssignReplicasToDirs",
    }
    for key in asked:
        with pytest.raises(ModuleNotFoundError):
            handler_module(key)


def test_nodes_may_ask_only_what_nodes_ask() -> None:
    asked = {key for key in ApiKey if REPLICATION in key.listeners}
    followers = {ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH}
    coordinators = {ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.WRITE_TXN_MARKERS}
    assert asked == followers | coordinators | AUTHENTICATION | {ApiKey.API_VERSIONS}
    assert AUTHENTICATION.isdisjoint(followers | coordinators)


class Clock:
    pass


class Exact(Clock):
    pass


@dataclass
class Made:
    clock: Clock
    name: str


def waits(request: int, context: int, made: Made, clock: Clock) -> tuple[int, int, Made, Clock]:
    return request, context, made, clock


def test_a_handler_is_given_the_parts_that_it_names() -> None:
    clock = Exact()
    given = Parts(clock, "n").given(waits)
    assert given(1, 2) == (1, 2, Made(clock, "n"), clock)  # type: ignore[call-arg]  # the others are given
    with pytest.raises(LookupError, match="no part of the type Clock"):
        Parts("n").given(waits)
