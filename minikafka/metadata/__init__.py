"""Cluster metadata as a replicated log: its records, the image they add up to, and the controller that writes them.

Map:

* ``records``      the facts, typed and versioned, as they are stored
* ``codec``        dataclasses to and from msgpack values
* ``image``        :class:`MetadataImage`, everything at one offset; immutable
* ``delta``        records applied to an image: the next image and what changed
* ``snapshot``     an image as records
* ``topic_names``  which names a topic may have
* ``effective``    settings in effect: what the image sets above what a node is configured with
* ``controller/``  requests in, records out

Every node replays the committed records and acts on each delta; the active controller alone writes new ones. Pure: no
clock, no randomness, no I/O.
"""
