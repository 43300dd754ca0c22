"""Parts of a producer.

- ``partitioner``  choice of a record's partition (pure)
- ``accumulator``  records gathered into batches per partition, in order, within a bound (pure)
- ``sequences``    producer id, epoch and sequence numbers of each partition's batches (pure)
- ``identity``     asks the cluster for a producer id
- ``transactions``  a transactional id: beginnings and ends of transactions, offsets in them
- ``sender``       sends batches to the leaders, with retries until their time is up
"""
