"""Record batches <-> Arrow, without a Python object for a record. Pure: no I/O, no clock.

============  ==================================================================================================
``schema``    the columns of a topic, as Spark's Kafka source has them
``starts``    where each record of a batch begins: the only pass that goes record by record
``varints``   a column of varints, read and written at once
``slices``    binary columns from places in a buffer; ``joining``: put together element by element
``headers``   a column of record headers, both ways
``decode``    batches of a fetch -> one Arrow record batch
``encode``    Arrow columns -> batches for a producer
``broken``    what is wrong with bytes that were to be records
============  ==================================================================================================

``minikafka.records`` is the same codec record by record, and the tests hold the two against each other.
"""
