"""What clients of a secure cluster are to be given, for people who copy it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from minikafka.cli.output import print_line

if TYPE_CHECKING:
    from minikafka.chaos.layout import ClusterLayout


def print_how_to_connect(layout: ClusterLayout) -> None:
    """By kind of client; our own verbs find it by themselves."""
    from minikafka.client.other_clients import client_config

    file = layout.client_properties_file
    print_line(f"Java:       --command-config {shlex.quote(str(file))}")
    settings = client_config("confluent", layout.bootstrap_servers, layout.security)
    del settings["bootstrap.servers"]
    print_line(f"librdkafka: {' '.join(f'-X {name}={shlex.quote(value)}' for name, value in settings.items())}")
    trusted, own = layout.security.ssl_truststore_location, layout.security.ssl_keystore_location
    print_line(f"Python:     context = ssl.create_default_context(cafile={trusted!r})")
    print_line(f"            context.load_cert_chain({own!r})")
