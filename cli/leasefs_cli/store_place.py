"""Which ledger's file a command is about, and how its failures are told."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from leasefs.core.errors import ClaimConflict, Denied, InvalidRequest, LedgerUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

_SQLITE = "sqlite:"


def store_of_ledger() -> str:
    """The file of the ledger that commands speak to here, or of one's own if none runs.

    Raises:
        InvalidRequest: it is reached by TCP.
        LedgerUnavailable: it does not answer, or keeps nothing.
    """
    from leasefs.client import api, paths
    from leasefs.client.blocking import Link

    url, embedded = paths.ledger_url()
    if not url.startswith("unix:"):
        # Its answer names a path of its own host, where here another ledger's file may lie.
        raise InvalidRequest(
            f"the ledger at {url} is reached by TCP, and its file lies on its own host: do this there, as root or as its user, "
            "and name the file with --store",
            url=url,
        )
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


def own_store() -> str:
    """The directory of one's own ledger. Raises InvalidRequest: another one is configured, and would be thought to be meant."""
    from leasefs.client import paths

    url, embedded = paths.ledger_url()
    if not embedded:
        raise InvalidRequest(
            f"commands here speak to the ledger at {url}, which is not your own: name the directory of the store that is meant "
            f"with --store (your own is {paths.store_dir()})",
            url=url,
        )
    return paths.store_dir()


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
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise LedgerUnavailable(f"cannot {what}: {error.strerror or error}{where}") from error
    except (StoreError, UnknownEvent) as error:
        raise LedgerUnavailable(f"cannot {what}: {error}") from error
