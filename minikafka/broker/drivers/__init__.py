"""The thin asyncio around the pure machines: each driver feeds one of them and does what it says.

- ``raft``, ``metadata_log``      the metadata quorum and its files
- ``metadata_batches``            what its batches are to the quorum, and to who applies them
- ``metadata_recovery``           what a start finds of its files, and may believe
- ``metadata_snapshots``          its snapshots, and how their files show that they are whole
- ``commits``                     when committed records are applied, and who is told
- ``metadata``                    committed records as images and deltas, in portions
- ``controller``                  the active controller, where this node is it
- ``controller_client``           how to reach the active controller, wherever it is
- ``lifecycle``                   this broker's registration, heartbeats and controlled shutdown
- ``partitions``, ``due``         committed metadata as events of the local replicas; many of them in portions
- ``replica``                     the effects of a local replica: led, followed, cut, claimed, deleted
- ``verifications``               own bytes that followers could not append, read again
- ``assignments``                 in which log directories they are, told to the controller
- ``strays``                      logs that a start finds and metadata does not place here
- ``moves``                       replicas on their way from one log directory to another
- ``synced_topics``               which topics lose nothing with power, for the registration to tell
- ``replication``                 the follower's fetchers
- ``isr``                         ISR proposals on their way to the controller
- ``groups``, ``group_loading``   group coordinators, and how their logs are read back
"""
