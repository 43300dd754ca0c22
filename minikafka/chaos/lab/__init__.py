"""Labs: small experiments on real clusters, each of which shows one thing worth knowing.

The map:

* ``stage``    what a lab tells while it runs, and its outcome
* ``lab``      a lab, and its performance on a cluster of its own
* ``clients``, ``group_member``  producers, readers, members of groups
* ``gallery``  all labs

A module for each lab: ``acks_one``, ``min_isr``, ``unclean_election``, ``zombie_leader``, ``split_quorum``,
``slow_follower``, ``rack``, ``rebalance_storm``, ``full_disk``, ``delayed_end_txn``.
"""
