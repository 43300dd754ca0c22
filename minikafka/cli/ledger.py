"""What ``produce --history`` writes down: each record before it is sent, and what became of it."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

from minikafka.chaos.history import History
from minikafka.chaos.workload import record_id

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from minikafka.client import Producer

_PROCESS = "producer"


class Ledger:
    """A history of one producer and one topic. Its records must differ in key or value: they are known by them.

    With ``is_answered`` off (acks=0) nobody promises anything, so every outcome is unknown.
    """

    def __init__(self, file: IO[str], topic: str, *, is_answered: bool = True) -> None:
        self._history = History(file, keep=False)
        self._topic = topic
        self._is_answered = is_answered

    async def sending(self, producer: Producer, key: bytes | None, value: bytes | None) -> int:
        """Tell that the record is about to be sent; answers the partition that it must go to."""
        partition = await producer.partition_for(self._topic, key)
        self._history.append(_PROCESS, "invoke", "send", [self._item(partition, key, value)])
        return partition

    def outcome(
        self, partition: int | None, key: bytes | None, value: bytes | None
    ) -> Callable[[asyncio.Future[Any]], None]:
        """To be called when the record's fate is known. A failed one may have been written all the same."""
        assert partition is not None

        def told(delivery: asyncio.Future[Any]) -> None:
            item = self._item(partition, key, value)
            if delivery.cancelled() or delivery.exception() is not None or not self._is_answered:
                self._history.append(_PROCESS, "info", "send", [item])
            else:
                self._history.append(_PROCESS, "ok", "send", [[*item, delivery.result().offset]])

        return told

    def _item(self, partition: int, key: bytes | None, value: bytes | None) -> list[Any]:
        return [f"{self._topic}-{partition}", record_id(key, value)]
