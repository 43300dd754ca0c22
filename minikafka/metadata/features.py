"""Features: protocols that clients and nodes speak once the whole cluster does (KIP-584, KIP-1022).

A feature has a level in force (*finalised*); 0 is what was before there was the feature. A new cluster has the highest
levels; one that was upgraded keeps its own until an operator raises them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

TRANSACTION_VERSION: Final = "transaction.version"
"""1: records of transactions have tagged fields. 2: each transaction has an epoch of its own (KIP-890)."""

GROUP_VERSION: Final = "group.version"
"""1: consumer groups of the newer protocol (KIP-848)."""

LOWEST: Final = 0
SUPPORTED: Final[Mapping[str, int]] = {GROUP_VERSION: 1, TRANSACTION_VERSION: 2}
"""The highest level of each feature that this code knows."""


def has_consumer_groups(features: Mapping[str, int]) -> bool:
    """True when the newer group protocol is in force, by the levels of an image."""
    return features.get(GROUP_VERSION, LOWEST) >= 1
