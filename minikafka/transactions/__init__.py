"""Transactions as their coordinator knows them: states and transitions, and the records in Kafka's format.

=================== =============================================================================
``transaction.py``  a transactional id: its producer, its partitions, its state; the transitions
``records.py``      the records of ``__transaction_state``
=================== =============================================================================

The coordinator that decides, and its driver, are still to come: no API offers transactions.
"""
