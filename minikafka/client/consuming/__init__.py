"""What a consumer is made of.

- ``positions``    where a consumer stands in each partition, and what has to be asked next (pure)
- ``fetched``      what a fetch brought, decoded batch by batch as it is taken (pure)
- ``buffer``       what was fetched and waits to be taken, in order (pure)
- ``handover``     what the user holds, and the moment at which partitions can be handed over
- ``holdings``     the partitions that are read now, made of the four above
- ``subscription`` which topics are read, and so which partitions
- ``queries``      ListOffsets and OffsetForLeaderEpoch, as functions
- ``resolver``     asks for what positions lack
- ``fetcher``      keeps fetches under way
- ``coordinator``  finds the broker that coordinates a group, calls it, stores and fetches offsets
- ``assignments``  subscriptions and shares as members write them to one another (pure)
- ``membership``   the consumer's side of the group protocol
- ``commits``      offsets to the group: on request, every few seconds, at the end
"""
