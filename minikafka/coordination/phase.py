"""The life of a shard of a coordinator: as long as its node leads the partition that holds its records.

::

    Loading  --the log is replayed, and committed-->  Active  --resign-->  Resigned
    Loading  ----------------------------------------------------resign-->  Resigned
"""

from __future__ import annotations

from enum import Enum

from minikafka.errors import ErrorCode


class Phase(Enum):
    """The value is what requests are told."""

    LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    ACTIVE = ErrorCode.NONE
    RESIGNED = ErrorCode.NOT_COORDINATOR
