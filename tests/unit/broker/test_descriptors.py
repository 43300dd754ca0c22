from __future__ import annotations

import resource

import pytest

from minikafka.broker import descriptors


@pytest.mark.parametrize("limit", [512, 1_024, 4_096, 20_000, 65_536, 1 << 20])
def test_connections_never_take_what_logs_need(limit: int) -> None:
    shares = descriptors.shares(limit)
    connections = shares.clients + 2 * shares.peers + shares.duplicates
    assert connections + shares.replicas + shares.segments + descriptors.OTHERS <= limit
    assert shares.clients >= limit // 4
    assert shares.duplicates >= min(40, limit // 25), "most consumers of a small node are served without copying"
    assert shares.replicas >= limit // 10
    assert descriptors.PEERS_MIN <= shares.peers <= descriptors.PEERS_MAX


@pytest.mark.parametrize(
    ("soft", "hard", "raised"),
    [
        (1_024, 4_096, 4_096),
        (256, resource.RLIM_INFINITY, 65_536),
        (100_000, 1 << 20, None),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, None),
        (4_096, 4_096, None),
    ],
)
def test_the_limit_is_raised_and_never_lowered(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, raised: int | None
) -> None:
    set_to = []
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _kind, limits: set_to.append(limits))
    descriptors.raise_limit()
    assert set_to == ([] if raised is None else [(raised, hard)])


def test_a_system_that_allows_less_is_asked_for_less(monkeypatch: pytest.MonkeyPatch) -> None:
    set_to = []

    def set_limit(_kind: int, limits: tuple[int, int]) -> None:
        if limits[0] > 10_240:
            raise ValueError("current limit exceeds maximum limit")
        set_to.append(limits)

    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (256, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", set_limit)
    descriptors.raise_limit()
    assert set_to == [(10_240, resource.RLIM_INFINITY)]
