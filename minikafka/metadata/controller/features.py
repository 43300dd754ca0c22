"""UpdateFeatures: levels of features that hold for the whole cluster (KIP-584)."""

from __future__ import annotations

from enum import IntEnum

from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.controller.state import ControllerState
from minikafka.metadata.features import SUPPORTED
from minikafka.metadata.records import FeatureLevelRecord
from minikafka.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)


class UpgradeType(IntEnum):
    """May the level fall?"""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def finalise_all(state: ControllerState) -> None:
    """A new cluster has the highest levels."""
    for name, level in sorted(SUPPORTED.items()):
        state.write(FeatureLevelRecord(name, level))


def update_features(state: ControllerState, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """All changes or none. Errors: INVALID_REQUEST, INVALID_UPDATE_VERSION."""
    names = [update.feature for update in request.feature_updates]
    if not names or len(set(names)) < len(names):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "each feature is to be named once, and at least one")
    for update in request.feature_updates:
        _check(state, update)
    if not request.validate_only:
        for update in request.feature_updates:
            if update.max_version_level != state.image.features.get(update.feature, 0):
                state.write(FeatureLevelRecord(update.feature, update.max_version_level))
    return UpdateFeaturesResponse()


def _check(state: ControllerState, update: FeatureUpdateKey) -> None:
    name, level = update.feature, update.max_version_level
    highest = SUPPORTED.get(name)
    if highest is None:
        known = ", ".join(sorted(SUPPORTED))
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, f"feature {name!r} is unknown; there are {known}")
    if not 0 <= level <= highest:
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, f"{name} goes from 0 to {highest}, not to {level}")
    now = state.image.features.get(name, 0)
    may_fall = update.allow_downgrade or update.upgrade_type in (
        UpgradeType.SAFE_DOWNGRADE,
        UpgradeType.UNSAFE_DOWNGRADE,
    )
    if level < now and not may_fall:
        raise KafkaError(
            ErrorCode.INVALID_UPDATE_VERSION, f"{name} is at {now}; to lower it to {level}, ask for a downgrade"
        )
