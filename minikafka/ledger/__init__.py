"""The ledger: a history of what clients did and saw, and its judgement. Pure: from lines to events, and to a verdict.

* ``events``     one event of a history, and its line in a file
* ``offsets``    the offset of each record
* ``partition``  the events of one partition
* ``rules``      the rules, each over one partition
* ``sentences``  the list of rules and the texts of violations, for this checker and for the one on Spark
* ``verdict``    the outcome: kept, broken, not judged, or nothing proved
* ``checker``    the theory, and the verdict on a history that fits in memory
* ``reading``    lines of files -> events
* ``judging``    the verdict of both checkers on a whole history (``minikafka chaos check``)

and for transactions, over all partitions of a history in memory:

* ``transactions``         each transaction, and the partitions as read_committed consumers must find them
* ``transaction_rules``    the rules
* ``transaction_checker``  the theory, and the verdict

``chaos.history`` collects events while they happen; ``spark.pipelines.audit`` judges histories larger than memory by
the same rules.
"""
