"""The command line: one module per group of verbs.

* ``main``     the application and the one place where an error becomes a line on stderr and an exit code
* ``broker``   ``minikafka broker``: run one broker in the foreground
* ``cluster``  ``minikafka cluster ...``: a cluster of background processes on this machine, and faults on demand
* ``topic``    ``minikafka topic ...``
* ``produce``  ``minikafka produce``
* ``consume``  ``minikafka consume``
* ``log``      ``minikafka log ...``: look into files on disk
* ``demo``     ``minikafka demo``
* ``options``  what several verbs take, in the same words
* ``output``   tables, JSON, sizes and errors

A module imports what its verbs need inside the verb, so that ``minikafka --help`` and the quick verbs stay quick.
"""
