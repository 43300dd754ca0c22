"""Kafka's messages, one module per API, one class per message whatever its version.

A module holds ``<Api>Request`` and ``<Api>Response`` and their structs under
Kafka's own names (where both give one name to different structs, ``Request`` or ``Response`` is put in front).

- Attributes are Kafka's field names in snake case; all have defaults and are given by keyword.
- ``bytes`` fields hold bytes; ``records`` fields decode to slices of the frame, valid only as long as the frame is.
- A struct that is tagged or nullable is None when absent.
- Modules are imported when first needed (:mod:`minikafka.wire.api`), which keeps start-up short.
"""
