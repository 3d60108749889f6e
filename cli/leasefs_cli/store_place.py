"""Which ledger's file a command is about, and how its failures are told."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from leasefs.core.errors import ClaimConflict, Denied, LedgerUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

_SQLITE = "sqlite:"


def store_of_ledger() -> str:
    """The file of the ledger that commands speak to here, or of one's own if none runs.

    Raises:
        LedgerUnavailable: it runs elsewhere, or keeps nothing.
    """
    from leasefs.client import api, paths
    from leasefs.client.blocking import Link

    url, embedded = paths.ledger_url()
    try:
        store = str(Link(url).send(api.status())["store"])
    except LedgerUnavailable:
        if not embedded:
            raise
        return paths.store_dir()
    if not store.startswith(_SQLITE):
        raise LedgerUnavailable(
            f"the ledger at {url} keeps its log in {store}, so there is no file", url=url
        )
    return store.removeprefix(_SQLITE)


@contextlib.contextmanager
def told_as_failures(what: str) -> Iterator[None]:
    """Raise what a store raises as a failure of a command; `what` says what it was about to do."""
    from leasefs.service.entries import UnknownEvent
    from leasefs.service.places import UnsafePlace
    from leasefs.store.errors import StoreError, StoreLocked

    try:
        yield
    except StoreLocked as error:
        raise ClaimConflict(f"cannot {what}: {error}") from error
    except UnsafePlace as error:
        raise Denied(str(error)) from error
    except FileExistsError as error:
        raise ClaimConflict(
            f"cannot {what}: {error} is there already; name another file"
        ) from error
    except (StoreError, UnknownEvent, OSError) as error:
        raise LedgerUnavailable(f"cannot {what}: {error}") from error
