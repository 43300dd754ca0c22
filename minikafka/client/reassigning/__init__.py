"""Moving partitions between brokers and directories, as Kafka's ``kafka-reassign-partitions`` does.

=============  ================================================================================================
``plan``       the JSON files (pure)
``checks``     a plan against the cluster: refused before anything changes (pure)
``proposal``   a balanced plan that moves little (pure)
``throttles``  which replicas a throttle slows down, in Kafka's settings (pure)
``progress``   how far a plan is: replicas and bytes (pure)
``tool``       carries a plan out with an ``Admin``, follows it, cancels it
=============  ================================================================================================
"""
