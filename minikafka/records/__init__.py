"""Record batches, format v2 (KIP-98): what a producer sends, a log stores and a consumer reads, byte for byte the same.

======================  =================================================================================
``batch``               the 61-byte header as a value; CRC; what a broker may rewrite in place
``validate``            what a leader demands of a producer's batch before it is appended, and a follower of its leader
``record``              one record and its encoding
``build``               records -> batch
``control``             control batches: transaction markers, leader change
``recompress``          a batch in another codec
``read``                batch -> records
``keys``                batch -> keys, and where the records are
``compression``         the five codecs, with a cap on what decompression may produce
======================  =================================================================================

The broker's path touches only ``batch`` and ``validate``: it never looks inside a batch. The modules that do
(``build``, ``read``, ``keys``, ``compression``) are for clients, the metadata log, group offsets, compaction, and for
topics that are compacted or have a codec of their own.
"""
