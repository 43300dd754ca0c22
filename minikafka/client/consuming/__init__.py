"""Parts of a consumer.

- ``positions``    position in each partition, and its next request (pure)
- ``fetched``      one fetch answer, decoded batch by batch when it is taken (pure)
- ``buffer``       fetch answers that wait to be taken, in order (pure)
- ``handover``     records under work by the user, and the moment at which partitions can be handed over
- ``holdings``     the assigned partitions, made of the four above
- ``subscription`` subscribed topics and their partitions
- ``queries``      ListOffsets and OffsetForLeaderEpoch, as functions
- ``resolver``     looks up missing offsets and epochs of positions
- ``fetcher``      keeps fetches under way
- ``coordinator``  finds the broker that coordinates a group, calls it, stores and fetches offsets
- ``assignments``  subscriptions and shares as members write them to one another (pure)
- ``membership``   the consumer's side of the group protocol
- ``commits``      offsets to the group: on request, every few seconds, at the end
"""
