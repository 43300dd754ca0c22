"""``minikafka acl``: what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import typer

from minikafka.cli import acl


@pytest.mark.parametrize(
    "options", [{"operation": ["read"]}, {"allow_host": ["10.0.0.7"]}, {"producer": True}, {"idempotent": True}]
)
def test_some_acls_of_a_resource_are_not_taken_for_all_of_them(options: dict[str, Any]) -> None:
    """Its denials would go, too."""
    given = acl.Given(topic=["orders"], **options)
    with pytest.raises(typer.BadParameter, match="allow-principal"):
        acl.remove(**{name: getattr(given, name) for name in acl.Given.__slots__})
