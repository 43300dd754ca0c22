"""What security costs: TLS, logins, and rights.

- ``tls``      encrypted everywhere against not at all
- ``others``   TLS against Apache Kafka with TLS
- ``rights``   ACLs against none
- ``logins``   a thousand clients that connect at once
"""
