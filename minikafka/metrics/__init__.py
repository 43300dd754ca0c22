"""What a node counts, as plain integers, and the names under which it shows them. Pure: nothing here reads a clock.

The hot path adds to these objects; a scrape (``minikafka.broker.metrics``) reads them.

- ``histogram``   counts of values by bucket
- ``requests``    requests and their times and errors, by API
- ``traffic``     bytes and messages in and out, by topic
- ``catalogue``   every metric: name, type, labels, meaning (docs/metrics.md is made of it)
"""
