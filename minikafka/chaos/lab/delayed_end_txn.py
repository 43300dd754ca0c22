"""A commit that does not arrive: read_committed consumers stand still before it, until the coordinator aborts."""

from __future__ import annotations

import asyncio
from typing import Final

from minikafka.chaos.lab.clients import Writer, create_topic, failure, read_all
from minikafka.chaos.lab.lab import Lab
from minikafka.chaos.lab.stage import Stage
from minikafka.client import Admin
from minikafka.model import Isolation, TopicPartition

TOPIC: Final = "payments"
PRODUCER: Final = "payer"
COUNT: Final = 3
OTHERS: Final = 10
TIMEOUT_MS: Final = 8_000
COMMIT_S: Final = 1.0
_LATEST: Final = -1


class DelayedEndTxn(Lab):
    """A rule at the brokers drops the request that ends a transaction."""

    name = "delayed-end-txn"
    summary = "a commit that does not arrive holds up all read_committed consumers, until the time-out aborts"
    watch = (
        f"A producer writes {COUNT} records in a transaction and commits, but its EndTxn requests are dropped. Another "
        f"producer writes {OTHERS} records, without a transaction, behind them.",
        "Watch the last stable offset against the high watermark, and what the two kinds of readers get. Then watch "
        "what the transaction's time-out does, and what the first producer is told.",
    )
    matters = (
        f"transaction.timeout.ms of the producer ({TIMEOUT_MS} here, 60000 by default); isolation.level of the consumer"
    )
    advice = (
        "transaction.timeout.ms as short as the longest transaction allows: it is how long an application that hangs "
        "may hold up all read_committed consumers of its partitions. Short transactions help, too.",
        "Watch the lag of read_committed consumers. `minikafka cluster status` and `minikafka transaction list` name "
        "the transaction that holds them back (in Kafka: kafka-transactions.sh).",
        "A commit may fail although it was asked for. Retriable: commit again. To be aborted: abort, and do the work "
        "again. Fatal (fenced): close the producer.",
    )

    def run(self, stage: Stage) -> None:
        create_topic(stage.cluster, TOPIC, [stage.cluster.node_ids], min_insync_replicas="2")
        settings = {"transactional_id": PRODUCER, "client_id": PRODUCER, "transaction_timeout_ms": TIMEOUT_MS}
        with Writer(stage.servers, TOPIC, **settings, socket_timeout_ms=1_000) as writer:
            writer.client.init_transactions(30)
            rule = stage.cluster.rule("EndTxn", drop=True, client_id=PRODUCER)
            writer.client.begin_transaction()
            writer.write(f"in-transaction-{n}" for n in range(COUNT))
            began_s = stage.seconds()
            first = failure(lambda: writer.client.commit_transaction(COMMIT_S))
            stage.say(f"{COUNT} records are written in a transaction; the commit is under way: {first or 'done'}")
            with Writer(stage.servers, TOPIC, acks="all") as other:
                other.write(f"other-{n}" for n in range(OTHERS))
                acknowledged = len(other.acknowledged)
            end, stable = self._ends(stage)
            seen = read_all(stage.servers, TOPIC)
            committed = read_all(stage.servers, TOPIC, committed=True)
            still_open = self._ends(stage)[1] == stable
            stage.say(f"{acknowledged} records of another producer are acknowledged behind them")
            stage.say(
                f"high watermark {end}, last stable offset {stable}: read_uncommitted gets {len(seen)} records, "
                f"read_committed {len(committed)}"
            )

            stage.wait("the last stable offset to move", lambda: self._ends(stage)[1] > stable)
            held_up_s = stage.seconds() - began_s
            stage.cluster.remove_rule(rule)
            after = read_all(stage.servers, TOPIC, committed=True)
            end_after, stable_after = self._ends(stage)
            stage.say(
                f"after {held_up_s:.1f} s the coordinator aborts (transaction.timeout.ms={TIMEOUT_MS}): high watermark "
                f"{end_after}, last stable offset {stable_after}; read_committed gets {len(after)} records"
            )
            second = failure(lambda: writer.client.commit_transaction(30))
            stage.say(f"EndTxn arrives again, and the first producer repeats its commit: {second or 'done'}")
        stage.measure(
            high_watermark=end, last_stable_offset=stable, held_up_s=held_up_s, repeated_commit=second or "done"
        )
        stage.expect(
            "the last stable offset stands still below acknowledged records",
            stable == 0 and end == COUNT + OTHERS and still_open,
        )
        stage.expect(
            "read_committed gets nothing meanwhile, read_uncommitted everything",
            not committed and len(seen) == COUNT + OTHERS,
        )
        stage.expect(
            "the time-out aborts, and read_committed goes on without the transaction",
            [value.startswith("other") for value in after] == [True] * OTHERS,
        )
        stage.expect("the producer is told that its commit failed", second is not None)
        stage.happened(
            "read_committed hands records out in the order of the log, and only up to the first open transaction. "
            f"{acknowledged} acknowledged records of somebody else waited {held_up_s:.1f} s for a transaction that "
            "they had nothing to do with.",
            "The coordinator cannot know whether a producer is slow or dead. After transaction.timeout.ms it aborts, "
            f"and raises the producer epoch: the commit that came at last was refused ({second}).",
        )

    def _ends(self, stage: Stage) -> tuple[int, int]:
        """The high watermark and the last stable offset."""

        async def ask() -> list[int]:
            partition = TopicPartition(TOPIC, 0)
            async with Admin(stage.servers) as admin:
                asked = (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED)
                return [
                    (await admin.list_offsets({partition: _LATEST}, isolation=each))[partition].offset for each in asked
                ]

        end, stable = asyncio.run(ask())
        return end, stable
