"""Certificates for tests of TLS: an authority's, and leaves of each kind that a handshake can meet."""

from __future__ import annotations

import datetime
import os
from typing import NamedTuple

import trustme

from leasefs.client.clock import BoottimeClock

_LONG_AGO = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)


class Leaf(NamedTuple):
    """A certificate and its key, two PEM files."""

    certificate: str
    key: str


class Authority:
    """An authority of its own; its certificate lies at `file`."""

    def __init__(self, directory: str, name: str = "authority") -> None:
        self.directory = directory
        self.file = os.path.join(directory, f"{name}.pem")
        self._name = name
        self._authority = trustme.CA()
        self._authority.cert_pem.write_to_path(self.file)

    def leaf(
        self, *names: str, label: str = "leaf", expired: bool = False, days: float | None = None
    ) -> Leaf:
        """A certificate made out to these host names and addresses; of the same `label` it replaces the former.

        `days`: good for so many more, else for long.
        """
        ends = _LONG_AGO + datetime.timedelta(days=30) if expired else None
        if days is not None:
            ends_s = BoottimeClock().wall_s() + days * 86400.0
            ends = datetime.datetime.fromtimestamp(ends_s, datetime.UTC)
        made = self._authority.issue_cert(
            *(names or ("127.0.0.1", "localhost")),
            not_before=_LONG_AGO if expired else None,
            not_after=ends,
        )
        place = os.path.join(self.directory, f"{self._name}-{label}")
        leaf = Leaf(f"{place}.pem", f"{place}.key")
        _written(leaf.key, made.private_key_pem.bytes())
        _written(leaf.certificate, b"".join(blob.bytes() for blob in made.cert_chain_pems))
        return leaf


def _written(path: str, content: bytes) -> None:
    """In place at once, as whoever renews certificates should do it."""
    draft = f"{path}.new"
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
    os.replace(draft, path)


def self_signed(directory: str) -> Leaf:
    """A certificate that vouches for itself: an authority's own, shown as if it were a server's."""
    authority = trustme.CA()
    leaf = Leaf(os.path.join(directory, "self.pem"), os.path.join(directory, "self.key"))
    _written(leaf.certificate, authority.cert_pem.bytes())
    _written(leaf.key, authority.private_key_pem.bytes())
    return leaf
