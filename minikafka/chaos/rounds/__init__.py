"""Chaos with a verdict: a cluster under load is broken by plan, mended, and judged.

* ``plan``        when what is broken, from a seed (pure)
* ``kinds``       the kinds of faults
* ``reached``     the cluster, as clients of each library reach it
* ``loads``       what all loads have in common, and the plain one; ``group_load``, ``transaction_load``,
  ``copy_load``: others; ``commits``: where members of a group begin (pure); ``behind``: what they did not commit
* ``confluent_clients``, ``minikafka_clients``, ``java_clients``: whose clients a load has
* ``records``     what they send; ``reading``: it is all read at the end
* ``observer``    leaders, epochs and in-sync replicas all the time
* ``trial``       one trial of one cluster, from its start to its outcome
* ``round``       with a new cluster, which is broken by plan; ``visit``: with one that is there already
* ``afterwards``  what is looked at when it is over; ``elections``: who led when, by the metadata log (pure);
  ``repetitions``: who wrote a record twice; ``following``: who read along, and was left behind (pure)
"""
