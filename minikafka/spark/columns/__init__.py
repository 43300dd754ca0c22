"""Record batches <-> Arrow, without a Python object for a record. Pure: no I/O, no clock.

============  ==================================================================================================
``schema``    the columns of a topic, same as in Spark's Kafka source
``starts``    the start of each record of a batch: the only pass record by record
``varints``   columns of varints, read and written as a whole
``slices``    binary columns from slices of a buffer; ``joining``: binary columns joined element by element
``headers``   columns of record headers, read and written
``decode``    batches of a fetch -> one Arrow record batch
``encode``    Arrow columns -> batches for a producer
``broken``    errors of malformed records
============  ==================================================================================================

``minikafka.records`` is the same codec record by record. Tests compare the two.
"""
