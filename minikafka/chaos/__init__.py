"""Faults, load and judgement: everything that breaks a cluster on purpose and says whether it kept its promises.

The map:

* ``layout``         what a local cluster looks like on disk: its directory, ports, ids and configuration files
* ``processes``      operating-system processes by id: still ours? in what state? signal it, wait for its end
* ``ports``          which ports of this machine are free
* ``local_cluster``  a cluster of broker processes on this machine: start, stop, kill, pause, resume, restart
* ``cluster_status`` such a cluster at a glance
* ``probe``          a metadata request over a bare socket: who is up, who leads, who is in sync (also the health check)
* ``history``        collects what clients do and see (``minikafka.ledger`` judges it: lost, duplicated, reordered, ...)
* ``workload``       the records that the demonstration sends, and the clients that send and read them
* ``demo``           the demonstration: load, faults, read back, verdict

Tests, benchmarks, the demonstration and ``minikafka cluster`` all drive processes through ``local_cluster``.
"""
