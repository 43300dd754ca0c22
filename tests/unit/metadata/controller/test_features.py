"""Levels of features (KIP-584)."""

from __future__ import annotations

from typing import Any

import pytest

from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.controller.features import UpgradeType
from minikafka.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

NAME = "transaction.version"
OTHERS = {"group.version": 1}


def update(level: int, name: str = NAME, upgrade_type: int = UpgradeType.UPGRADE, **how: Any) -> UpdateFeaturesRequest:
    key = FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade_type)
    return UpdateFeaturesRequest(feature_updates=[key], **how)


def test_a_level_falls_by_a_downgrade_and_rises_again(cluster: Any) -> None:
    assert cluster.image.features == OTHERS | {NAME: 2}
    cluster.ask(update(1, upgrade_type=UpgradeType.SAFE_DOWNGRADE))
    assert cluster.image.features == OTHERS | {NAME: 1}
    cluster.ask(update(0, upgrade_type=UpgradeType.UNSAFE_DOWNGRADE))
    assert cluster.image.features == OTHERS
    cluster.fail_over()
    assert cluster.ask(update(2)).error_code == 0
    assert cluster.image.features == OTHERS | {NAME: 2}


def test_what_is_only_validated_changes_nothing(cluster: Any) -> None:
    cluster.ask(update(1, upgrade_type=UpgradeType.SAFE_DOWNGRADE, validate_only=True))
    assert cluster.image.features == OTHERS | {NAME: 2}


@pytest.mark.parametrize(
    ("request_", "error", "said"),
    [
        (update(1), ErrorCode.INVALID_UPDATE_VERSION, "is at 2; to lower it to 1, ask for a downgrade"),
        (update(3), ErrorCode.INVALID_UPDATE_VERSION, "goes from 0 to 2, not to 3"),
        (update(-1), ErrorCode.INVALID_UPDATE_VERSION, "goes from 0 to 2, not to -1"),
        (
            update(1, "nonsense"),
            ErrorCode.INVALID_UPDATE_VERSION,
            "unknown; there are group.version, transaction.version",
        ),
        (UpdateFeaturesRequest(), ErrorCode.INVALID_REQUEST, "at least one"),
        (UpdateFeaturesRequest(feature_updates=update(1).feature_updates * 2), ErrorCode.INVALID_REQUEST, "once"),
    ],
)
def test_what_cannot_be_is_refused(cluster: Any, request_: UpdateFeaturesRequest, error: ErrorCode, said: str) -> None:
    with pytest.raises(KafkaError, match=said) as refused:
        cluster.ask(request_)
    assert refused.value.code is error
    assert cluster.image.features == OTHERS | {NAME: 2}


def test_all_changes_or_none(cluster: Any) -> None:
    both = UpdateFeaturesRequest(
        feature_updates=[
            *update(1, upgrade_type=UpgradeType.SAFE_DOWNGRADE).feature_updates,
            *update(1, "nonsense").feature_updates,
        ]
    )
    with pytest.raises(KafkaError):
        cluster.ask(both)
    assert cluster.image.features == OTHERS | {NAME: 2}
