"""Users of a secure cluster: ``admin``, who may do everything, and ``user``, who may do nothing until an ACL allows it.

::

    DIR/security/users             both and their passwords, for the nodes of a new cluster
    DIR/security/USER.password     a password
    DIR/security/USER.properties   what a client in Java, and our verbs, are given to be that user

All are of mode 0600: who has a file has its rights.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path
from typing import Final

from minikafka.chaos.layout import ClusterError, escaped, write_private
from minikafka.client import Security
from minikafka.client.other_clients import java_properties
from minikafka.config import BrokerConfig

ADMIN: Final = "admin"
USER: Final = "user"
USERS: Final = (ADMIN, USER)
MECHANISM: Final = "SCRAM-SHA-512"


def check_admin(config: BrokerConfig) -> None:
    """Raise ClusterError for settings of a node that takes the rights from ``admin``: the verbs log in as that one."""
    if f"User:{ADMIN}" not in config.super_users:
        raise ClusterError(f"super.users must have User:{ADMIN}, too, who makes users and gives rights (User:a;User:b)")
    if MECHANISM not in config.sasl_enabled_mechanisms:
        raise ClusterError(f"sasl.enabled.mechanisms must have {MECHANISM}, too, by which {ADMIN} logs in")


class Logins:
    """Of a cluster whose files are in a directory, and whose nodes have certificates of an authority."""

    def __init__(self, directory: Path, authority_file: Path) -> None:
        self._directory = directory
        self._authority_file = authority_file

    @property
    def credentials_file(self) -> Path:
        """What the nodes of a new cluster are given."""
        return self._directory / "users"

    def password_file(self, user: str) -> Path:
        """A user's password."""
        return self._directory / f"{user}.password"

    def properties_file(self, user: str) -> Path:
        """What a client in Java, and our verbs, are given."""
        return self._directory / f"{user}.properties"

    def security(self, user: str) -> Security:
        """How a client connects as that user. Raises ClusterError when it is none of ``USERS``."""
        if user not in USERS:
            raise ClusterError(f"user {user!r} has no password here; {' and '.join(USERS)} have")
        return Security(
            security_protocol="SASL_SSL",
            ssl_truststore_location=str(self._authority_file),
            sasl_mechanism=MECHANISM,
            sasl_username=user,
            sasl_password=self._password(user),
        )

    def make_missing(self, *, portable: bool = False) -> None:
        """Choose passwords, and write the files, unless they are there. ``portable``: the properties have the
        authority's certificate itself in place of its file's name, and hold wherever they are copied to. Raises
        ClusterError for a password of a cluster that is not new: another one would let nobody in."""
        for user in USERS:
            # The file for nodes is written last.
            if not self.password_file(user).exists() and not self.credentials_file.exists():
                write_private(self.password_file(user), secrets.token_urlsafe(24))
            if not self.properties_file(user).exists():
                self._write_properties(user, portable=portable)
        if not self.credentials_file.exists():
            rows = (f"{MECHANISM}=[name={user},password={self._password(user)}]\n" for user in USERS)
            write_private(self.credentials_file, "".join(rows))

    def change(self, user: str, password: str) -> None:
        """Have the files of the user tell a password that the nodes know by now."""
        write_private(self.password_file(user), password)
        self._write_properties(user)

    def _write_properties(self, user: str, *, portable: bool = False) -> None:
        security = self.security(user)
        if portable:
            trusted = self._authority_file.read_text()
            security = replace(security, ssl_truststore_location=None, ssl_truststore_certificates=trusted)
        properties = java_properties(security)
        lines = (f"{name}={escaped(value)}\n" for name, value in properties.items())
        write_private(self.properties_file(user), "".join(lines))

    def _password(self, user: str) -> str:
        """Whoever writes a new one with an editor ends the line. Raises ClusterError."""
        path = self.password_file(user)
        try:
            password = path.read_text(encoding="utf-8").rstrip("\n")
        except OSError as error:
            raise ClusterError(f"{path}, which is to have the password of {user}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ClusterError(f"{path}, which is to have the password of {user}, is not UTF-8 text") from None
        if not password:
            raise ClusterError(f"{path}, which is to have the password of {user}, is empty")
        return password
