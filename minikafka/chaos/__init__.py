"""Faults, load and judgement: tools that break a cluster on purpose, and judge whether it kept its promises.

The map:

* ``layout``         a local cluster on disk: its directory, ports, ids and configuration files
* ``authority``, ``logins``   certificates of a secure cluster, and users with their passwords
* ``processes``      operating-system processes by id: recognise, inspect and signal them, wait for their end
* ``forks``          nodes as processes, forked by one that has imported their code
* ``rounds``         rounds of chaos: plan, load, faults, verdict
* ``faults``         commands that break running nodes, and mend them: links, clocks, disks, rules for requests
* ``damage``         damage to the files of replicas
* ``ports``          free ports of this machine
* ``observed``       what the nodes of a cluster tell, and waiting until all is as it should be
* ``managed``        a cluster whose nodes are started, paused and ended from here: processes, threads or containers
* ``local_cluster``  a cluster of broker processes on this machine: start, stop, kill, pause, resume, restart
* ``compose_cluster``, ``compose_project``   a cluster of containers; the compose file for it
* ``cluster_status`` the status of a local cluster
* ``last_words``     why a node ended, from its log
* ``probe``          requests over a bare socket: who is up, leads, is in sync (also the health check), leads the quorum
* ``history``        collects what clients do and see (``minikafka.ledger`` judges it: lost, duplicated, reordered, ...)
* ``lab/``         experiments that show what a setting is good for
* ``report/``        the report of a chaos run: a page and JSON
* ``workload``       the records that the demonstration sends, and the clients that send and read them
* ``demo``           the demonstration: load, faults, read back, verdict
* ``bank``, ``bank_teller``   the demonstration of transactions: a bank, and its application that is killed
* ``late_end``, ``delaying_proxy``   what a late commit does in versions 1 and 2 of transactions; a network that is late

Tests, benchmarks, the demonstration and ``minikafka cluster`` all drive processes through ``local_cluster``.
"""
