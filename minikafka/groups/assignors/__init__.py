"""Who gets which partition: the assignors that a group's leader runs, as pure functions.

=====================  =======================================================================
``range.py``           topic by topic in ranges; co-partitioned topics stay together
``roundrobin.py``      all partitions dealt out like cards
``sticky.py``          balanced, moving as little as possible; cooperative: moved in two steps
``subscriber.py``      what an assignor is told about a member
``table.py``           the assignors by name
=====================  =======================================================================

Every assignor takes the members and the number of partitions of each topic, and gives every member its partitions
(an empty list to who gets none). Every partition of a topic that somebody subscribes to goes to one member who does.
"""
