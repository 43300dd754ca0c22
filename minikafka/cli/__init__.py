"""The command line: one module per group of verbs.

* ``main``     the application and the one place where an error becomes a line on stderr and an exit code
* ``broker``   ``minikafka broker``: run one broker in the foreground
* ``with_cluster``  ``minikafka run``: a cluster for as long as a command runs
* ``cluster``  ``minikafka cluster ...``: a cluster of background processes on this machine, and faults on demand
* ``chaos``    ``minikafka chaos ...``; ``chaos_run``: its rounds by a plan; ``chaos_check``, ``judgements``: the judge
* ``chaos_lab``  ``minikafka chaos lab``: experiments
* ``faults``   the verbs of ``chaos`` that break nodes, and mend them
* ``status``, ``logs``, ``inventory``  ``minikafka cluster status``, ``logs``, ``list`` and ``delete``
* ``membership``  ``minikafka cluster add``, ``drain`` and ``remove``: brokers that come and go
* ``feature``  ``minikafka cluster feature ...``
* ``topic``    ``minikafka topic ...``; ``describing``: what ``describe`` shows
* ``held_back``  whom open transactions hold back: for ``topic describe``, ``cluster status`` and ``consume``
* ``produce``  ``minikafka produce``; ``sending``: the way of lines to a topic
* ``record_input``  lines as records; ``partitioners``: their partitions
* ``consume``  ``minikafka consume``; ``reading``: the way of records to lines
* ``starting``  what is read; ``record_format``: records as lines
* ``group``, ``transaction``  ``minikafka group ...``, ``minikafka transaction ...``
* ``group_view``  what ``group describe`` shows; ``reset_offsets``  ``group reset-offsets``; ``reset_plan``: its files
* ``config``   ``minikafka config ...``; ``config_resources``: whose settings
* ``quota``, ``user``, ``acl``  ``minikafka quota ...``, ``minikafka user ...``, ``minikafka acl ...``
* ``acl_names``   which names can be those of nobody and nothing
* ``delete_records``  ``minikafka topic delete-records``
* ``reassign``  ``minikafka reassign``: where replicas are; ``reassign_view``: what it shows
* ``elect_leaders``, ``log_dirs``  ``minikafka elect-leaders``, ``minikafka log-dirs``
* ``progress``  bars: for bytes, and for replicas that move
* ``log``      ``minikafka log dump``: look into files on disk; ``verify``: ``minikafka log verify``
* ``demo``, ``demo_transactions``  ``minikafka demo``, ``minikafka demo transactions``
* ``pipeline/``  ``minikafka pipeline ...``: Spark over topics
* ``lines``    records from the lines of a file or pipe; ``ledger``: the history that ``produce --history`` writes
* ``extras``   packages that only some verbs need
* ``options``  what several verbs take, in the same words; ``run``: how a verb's coroutine is run, and interrupted
* ``command_config``  ``--command-config`` for all of them; ``connecting``: what clients of a secure cluster are given
* ``waiting``  what a verb waits for, said after 3 s and when it gives up
* ``paragraphs``  the text of ``--help``; ``elsewhere``: what other tools call our verbs
* ``completion``  names of topics and groups for a shell
* ``times``    times and time spans as words; ``partitions``: topics and ``TOPIC:0,2`` looked up in the cluster
* ``output``   tables, JSON, sizes and errors

A module imports what its verbs need inside the verb, so that ``minikafka --help`` and the quick verbs stay quick.
"""
