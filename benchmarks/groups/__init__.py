"""What groups can do, measured: ``python -m benchmarks groups``, or one of its parts.

* ``heartbeats``  CPU of the nodes for the heartbeats of 1,000 members in 100 groups
* ``failover``    from the SIGKILL of a group coordinator's node until every member goes on
"""
