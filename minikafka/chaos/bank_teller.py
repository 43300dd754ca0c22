"""The application of the bank (:mod:`minikafka.chaos.bank`): it books transfers, each once, and is killed at any time.

``python -m minikafka.chaos.bank_teller SERVERS``: a transfer in the topic ``transfers`` becomes two bookings in the
topic ``ledger``: first what is taken, then what is given. A transaction has the bookings of some transfers, and the
group's offsets. Each tenth is aborted on purpose, with all that was written, and done again.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Final

from minikafka.client import Consumer, FencedError, Producer, TransactionAbortedError
from minikafka.errors import KafkaError
from minikafka.model import Isolation

TRANSFERS: Final = "transfers"
LEDGER: Final = "ledger"
GROUP: Final = "tellers"
TRANSACTIONAL_ID: Final = "teller"
TRANSFERS_AT_ONCE: Final = 40
ABORT_EVERY: Final = 10
SESSION_TIMEOUT_MS: Final = 2_000
DELIVERY_TIMEOUT_MS: Final = 20_000


class _OnPurposeError(Exception):
    pass


async def book_for_ever(servers: str) -> None:
    """Until the process is killed, or another teller has begun."""
    async with (
        Producer(servers, transactional_id=TRANSACTIONAL_ID, delivery_timeout_ms=DELIVERY_TIMEOUT_MS) as producer,
        Consumer(
            servers,
            TRANSFERS,
            group_id=GROUP,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level=Isolation.READ_COMMITTED,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=300,
        ) as consumer,
    ):
        number = 0
        while True:
            try:
                records = await consumer.poll(1_000, TRANSFERS_AT_ONCE)
                if not records:
                    continue
                number += 1
                async with producer.transaction():
                    transfers = [json.loads(record.value or b"{}") for record in records]
                    for side, sign in (("from", -1), ("to", 1)):
                        for transfer in transfers:
                            booking = {"transfer": transfer["number"], "amount": sign * transfer["amount"]}
                            account = transfer[side].encode()
                            await producer.send(LEDGER, json.dumps(booking).encode(), key=account, partition=0)
                        await producer.flush()
                    await producer.send_offsets(consumer.progress())
                    if number % ABORT_EVERY == 0:
                        raise _OnPurposeError
            except (_OnPurposeError, TransactionAbortedError):
                consumer.rewind()
            except FencedError:
                return
            except KafkaError:  # not known whether it was committed, or the group has rebalanced: the offsets tell
                consumer.rewind()


def main() -> None:
    """See the module."""
    asyncio.run(book_for_ever(sys.argv[1]))


if __name__ == "__main__":
    main()
