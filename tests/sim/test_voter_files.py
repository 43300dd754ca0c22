"""A sample of ``make sim VOTER=1``: damage to the files of a voter, which mends itself or says what is wrong."""

from __future__ import annotations

import pytest
from sim_invariants import InvariantViolatedError
from sim_voter import VoterSweep, sweep_voter

from minikafka.broker.drivers.metadata_snapshots import MetadataSnapshots

STRIDE, FINE_STRIDE = 433, 211


@pytest.mark.spec("P5")
@pytest.mark.spec("P6")
@pytest.mark.parametrize("stride", [STRIDE, pytest.param(FINE_STRIDE, marks=pytest.mark.long)])
def test_a_voter_mends_its_files_or_says_what_is_wrong(stride: int) -> None:
    report = sweep_voter(1, stride)
    assert not report.violation, report.violation
    assert report.cases.total() > 40, dict(report.cases)


def test_the_sweep_notices_a_node_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: damaged snapshots stay where they are."""
    monkeypatch.setattr(MetadataSnapshots, "put_damaged_aside", lambda _snapshots: None)
    with pytest.raises(InvariantViolatedError, match=r"\.checkpoint .* while .* is"):
        VoterSweep(1, 20, only="/a/__cluster_metadata-0/0-0.checkpoint").run()
