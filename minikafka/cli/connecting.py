"""What clients of a secure cluster are to be given, for people who copy it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from minikafka.cli.output import print_line

if TYPE_CHECKING:
    from minikafka.chaos.layout import ClusterLayout


def print_how_to_connect(layout: ClusterLayout) -> None:
    """As each user, by kind of client, without passwords: a terminal is read by others. Our own verbs are the admin."""
    from minikafka.chaos.logins import ADMIN, USER
    from minikafka.client.other_clients import client_config

    for user, rights in ((ADMIN, "may do everything"), (USER, "may do what ACLs allow")):
        password = shlex.quote(str(layout.logins.password_file(user)))
        settings = client_config("confluent", layout.bootstrap_servers, layout.security_of(user))
        del settings["bootstrap.servers"], settings["sasl.password"]
        options = " ".join(f"-X {name}={shlex.quote(value)}" for name, value in settings.items())
        print_line(f"{user}, who {rights}; the password is in {password}")
        print_line(f"  Java:       --command-config {shlex.quote(str(layout.logins.properties_file(user)))}")
        print_line(f'  librdkafka 2.6.1 or newer: {options} -X sasl.password="$(cat {password})"')
    trusted = layout.security.ssl_truststore_location
    print_line('Python: security_protocol="SASL_SSL", sasl_mechanism="SCRAM-SHA-512", sasl_plain_username=...,')
    print_line(f"        sasl_plain_password=..., ssl_context=ssl.create_default_context(cafile={trusted!r})")
    allow = f"acl add --allow-principal User:{USER} --producer --consumer --topic TOPIC --group GROUP"
    print_line(f"to let {USER} write and read a topic: {layout.command(allow)}")
