"""Checks of the ledger's log itself: whether what is in it is what was written."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING

from leasefs.client import paths
from leasefs.core.errors import LeasefsError
from leasefs.service.server import STORE_FILE
from leasefs.store.errors import StoreError
from leasefs.store.sqlite_reading import ReadOnlyStore
from leasefs_cli.checks.finding import FAIL, OK, UNKNOWN, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

# As much is read in a second or two.
READ_WHOLE_BYTES = 64 << 20


def log_findings() -> Iterator[Finding]:
    """One finding about this user's own log. It is read beside its ledger, whether that runs or not; never changed."""
    try:
        _, embedded = paths.ledger_url()
        path = os.path.join(paths.store_dir(), STORE_FILE)
    except LeasefsError as error:
        yield Finding(UNKNOWN, "log", error.message, "")
        return
    if not embedded:
        return  # another ledger's log is its own affair
    try:
        size_bytes = os.stat(path).st_size
    except FileNotFoundError:
        yield Finding(OK, "log", "none yet")
    except OSError as error:
        yield Finding(UNKNOWN, "log", f"{path}: {error.strerror}", "")
    else:
        yield _log(path, whole=size_bytes <= READ_WHOLE_BYTES)


def _log(path: str, *, whole: bool) -> Finding:
    try:
        with closing(ReadOnlyStore(path)) as store:
            if not whole:
                head, advice = store.head(), "leasefs ledger verify reads all of it"
                return Finding(OK, "log", f"{path}: its end is whole, up to event {head}", advice)
            verified = store.verify()
    except StoreError as error:
        return Finding(FAIL, "log", str(error), "leasefs ledger restore brings a backup back")
    if verified.problems:
        advice = (
            "stop the ledger, then leasefs ledger restore a backup; the damaged file is kept aside"
        )
        return Finding(FAIL, "log", f"{path}: {'; '.join(verified.problems)}", advice)
    return Finding(OK, "log", f"{path}: {verified.events} events, each as it was written")
