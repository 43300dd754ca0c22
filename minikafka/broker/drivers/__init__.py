"""The thin asyncio around the pure machines: each driver feeds one of them and carries out its effects.

- ``raft``, ``metadata_log``      the metadata quorum and its files
- ``metadata_batches``            batches of the metadata log, for the quorum and for the image
- ``metadata_recovery``           the quorum's files at a start: checks and repair marks
- ``metadata_copies``             which one, if log directories hold several or an older copy
- ``metadata_snapshots``          files of the quorum's snapshots
- ``commits``                     applies committed records, and wakes those who proposed them
- ``metadata``                    committed records as images and deltas, in portions
- ``controller``                  the active controller, while this node leads the quorum
- ``controller_client``           calls the active controller, on this or another node
- ``lifecycle``                   this broker's registration, heartbeats and controlled shutdown
- ``partitions``, ``due``         committed metadata as events of the local replicas; many of them in portions
- ``replica``                     the effects of a local replica: lead, follow, cut, claim, delete
- ``verifications``               verification of records that followers could not append
- ``assignments``                 reports the replicas' log directories to the controller
- ``strays``                      logs at a start that metadata does not place here
- ``moves``                       moves of replicas between log directories
- ``synced_topics``               topics that lose nothing in a power cut, for the registration
- ``replication``                 the follower's fetchers; ``leader_calls``: connection and requests of one
- ``isr``                         sends ISR proposals to the controller
- ``shards``, ``shard_loading``   coordinators, one per partition of their topic, and the replay of their logs
- ``groups``, ``transactions``    the coordinators of groups and of transactions
- ``group_topics``                the topics of the metadata, for consumer groups
- ``markers``                     markers that transaction coordinators order
"""
