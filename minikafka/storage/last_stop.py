"""How the last process that had a log ended, and what is recorded of the log elsewhere: what a start judges it by."""

from __future__ import annotations

from typing import NamedTuple

from minikafka.storage.log_ends import Noted


class LastStop(NamedTuple):
    """How the last process ended, and what the checkpoints say of the log. Offsets that make no sense are harmless."""

    log_start_offset: int | None = 0
    """None where it was recorded and cannot be read: records that were deleted may come back."""
    recovery_point: int = 0
    high_watermark: int = 0
    noted: Noted | None = None
    """How far the log reached when the last process ended, and where it began; None where that is not known."""
    is_clean: bool = False
    """It stopped orderly: nothing needs to be verified."""
    was_killed: bool = False
    """It did not, but the machine has run on since. Neither: the machine may have lost power."""

    @property
    def noted_end(self) -> int | None:
        """The log reached that far, see :mod:`.log_ends`."""
        return None if self.noted is None else self.noted.end_offset

    @property
    def keeps_writes(self) -> bool:
        """What was written is there, unless it was damaged."""
        return self.is_clean or self.was_killed
