"""The coordinator of transactions: a pure machine, and its records in Kafka's formats (KIP-98, KIP-360, KIP-890).

=================== =============================================================================
``coordinator.py``  :class:`~minikafka.transactions.coordinator.TransactionCoordinator`: all calls
                    of a driver, and the invariants; one per led partition of
                    ``__transaction_state``
``transaction.py``  a transactional id: its producer, its partitions, its state; the transitions
``shard.py``        the state of a coordinator, the outbox of a step, writes under way
``beginning.py``    InitProducerId, AddPartitionsToTxn
``ending.py``       EndTxn, time-outs, markers, completion
``expiry.py``       ids that were not used for long
``queries.py``      DescribeTransactions, ListTransactions
``loading.py``      begin and end of a shard
``effects.py``      outcomes, markers to write, large records, who may ask again, keys of timers
``limits.py``       bounds of memory and of a record
``records.py``      the records of ``__transaction_state``
``settings.py``     limits and times, by Kafka's names
=================== =============================================================================

Effects of all coordinators, phases, and the partition of an id are in :mod:`minikafka.coordination`.
"""
