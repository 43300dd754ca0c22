"""What a producer is made of.

- ``partitioner``  which partition a record goes to (pure)
- ``accumulator``  records gathered into batches per partition, in order, within a bound (pure)
- ``sequences``    the producer id, epoch and sequence numbers of each partition's batches (pure)
- ``identity``     asks the cluster for a producer id
- ``sender``       takes batches to the leaders, and again until their time is up
"""
