from __future__ import annotations

import re
import runpy
from inspect import getmodule
from pathlib import Path

import pytest

from minikafka.broker.handlers import api_versions, tables
from minikafka.wire.api import ApiKey

ROOT = Path(__file__).parents[4]
SERVED = {**tables.CLIENT_HANDLERS, **tables.CLIENT_DIRECT, ApiKey.API_VERSIONS: api_versions.Responses}


def test_the_page_of_supported_apis_is_current() -> None:
    generator = runpy.run_path(str(ROOT / "tools" / "generate_protocol_support.py"))
    page = (ROOT / "docs" / "protocol-support.md").read_text()
    assert page == generator["page"](), "run: python tools/generate_protocol_support.py"


@pytest.mark.parametrize("key", SERVED, ids=lambda key: key.camel_name)
def test_a_handlers_module_is_named_after_its_api_and_says_its_versions(key: ApiKey) -> None:
    module = getmodule(SERVED[key])
    assert module is not None
    assert module.__doc__ is not None
    assert module.__name__.rsplit(".", 1)[-1] == key.name.lower()
    first, last = key.versions
    versions = f"versions {first}-{last}" if first < last else f"version {first}"
    assert re.match(rf"{key.camel_name} \(key {int(key)}\), {versions}\b", module.__doc__), module.__doc__.split("\n")[
        0
    ]


def test_followers_may_ask_only_what_followers_ask() -> None:
    assert set(tables.REPLICATION_HANDLERS) | set(tables.REPLICATION_DIRECT) == {
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
    }
    assert tables.REPLICATION_OPEN.isdisjoint({ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH})
