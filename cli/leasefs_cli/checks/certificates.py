"""Checks of certificates: the ledger's own where it is served from here, the one that it shows, and the client's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.client import config, paths
from leasefs.client.address import parse_url
from leasefs.client.blocking import Link
from leasefs.client.certificates import file_good_until_s, good_until_s, soon_over
from leasefs.client.clock import BoottimeClock
from leasefs.core.errors import LeasefsError
from leasefs_cli.checks.finding import FAIL, OK, UNKNOWN, WARN, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHECK = "certificate"
_RENEW = "renew it, and have the ledger read it again: systemctl reload leasefs-ledger, or SIGHUP"
_RENEW_CLIENTS = "have a new one made by who runs the ledger, and put it there"


def certificate_findings() -> Iterator[Finding]:
    """One for each certificate that is configured here or shown by the ledger; none where there is no TLS."""
    for setting, advice in (
        ("ledger.tls_cert", _RENEW),
        ("ledger.client_cert_file", _RENEW_CLIENTS),
    ):
        try:
            path = config.path(setting)
        except LeasefsError:
            continue  # the check of the configuration has said so
        if path:
            yield _of_file(path, advice)
    yield from _shown()


def _of_file(path: str, advice: str) -> Finding:
    try:
        return _judged(path, file_good_until_s(path), advice)
    except PermissionError as error:
        return Finding(UNKNOWN, _CHECK, f"{path}: {error.strerror}", "")
    except OSError as error:
        return Finding(FAIL, _CHECK, f"{path}: {error.strerror}", "see leasefs config show")
    except ValueError as error:
        return Finding(FAIL, _CHECK, str(error), "see leasefs config show")


def _shown() -> Iterator[Finding]:
    """The ledger may not have read its file again, or be on another host."""
    try:
        url, _ = paths.ledger_url()
        if not parse_url(url).host:
            return
        der = Link(url, timeout_s=5.0).certificate()
    except LeasefsError:
        return  # the ledger's own check has said so, also of one that has expired
    try:
        yield _judged(url, good_until_s(der), _RENEW)
    except ValueError as error:
        yield Finding(UNKNOWN, _CHECK, f"{url}: {error}", "")


def _judged(whose: str, until_s: float, advice: str) -> Finding:
    now_s = BoottimeClock().wall_s()
    ends = soon_over(until_s, now_s)
    if not ends:
        return Finding(OK, _CHECK, f"that of {whose} is good for two weeks and more")
    level = FAIL if until_s <= now_s else WARN
    return Finding(level, _CHECK, f"that of {whose} {ends}", advice)
