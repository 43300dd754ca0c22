"""Cluster metadata as a replicated log: its records, the image built from them, and the controller that writes them.

Map:

* ``records``      the facts, typed and versioned, as they are stored
* ``codec``        dataclasses to and from msgpack values
* ``image``        :class:`MetadataImage`, everything at one offset; immutable
* ``delta``        records applied to an image: the next image and what changed
* ``snapshot``     an image as records
* ``topic_names``  valid names of topics
* ``features``     protocols that the whole cluster speaks, and their levels
* ``client_quotas``  quotas of clients: which there are, and which one holds for whom
* ``acl_messages``  ACLs and filters of requests
* ``effective``    settings in effect: those of the image take precedence over the node's own
* ``controller/``  requests in, records out

Every node replays the committed records and acts on each delta. Only the active controller writes new ones. Pure: no
clock, no randomness, no I/O.
"""
