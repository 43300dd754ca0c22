"""What a test breaks in a running node, which must have been started for it (``fault.injection.enable``).

* ``switchboard``  every fault of the node, and the commands that change them
* ``rules``        what becomes of requests: a list of rules, the first that fits decides
* ``requests``     carries the rules out, between a listener and its handler
* ``disk``         a disk that is full, slow or unreadable, or lies
* ``platter``      what a disk that lies has kept
* ``clock``        a wall clock that is wrong, or drifts

Links to other nodes and to clients are ``net.links``.
"""
