"""Reaction to lost records: fail, or warn and read the remaining ones (``failOnDataLoss``)."""

from __future__ import annotations

import logging
from typing import Final

from minikafka.errors import ErrorCode, KafkaError

_ADVICE: Final = "set 'failOnDataLoss' to false to go on with what is left"

_log = logging.getLogger(__name__)


class DataLossError(KafkaError):
    """Records that the query should read are gone."""

    def __init__(self, what: str) -> None:
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, f"{what}: records may be lost to this query; {_ADVICE}")


def report_loss(what: str, *, fail: bool) -> None:
    """Raise DataLossError, or warn."""
    if fail:
        raise DataLossError(what)
    _log.warning("%s: records may be lost to this query, which goes on with what is left", what)
