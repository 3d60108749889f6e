"""How much of the territory a claim covers, counted when the ledger asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs_cli.interrupts import dying_at_once

if TYPE_CHECKING:
    from leasefs.client import api
    from leasefs.core.errors import OverCap
    from leasefs_cli.place import Place


def with_share(call: api.Call, place: Place, refused: OverCap) -> api.Call:
    """The claim again, with the share of the files here that its globs match.

    Raises:
        OverCap: it was refused for another reason.
    """
    if refused.details.get("needs") != "share" or call.body is None:
        raise refused
    with dying_at_once():  # the claim was refused, so nothing is under way
        share = _share_of(place, call.body["globs"])
    if share is None:
        raise refused
    return call._replace(body={**call.body, "share": share})


def _share_of(place: Place, globs: list[str]) -> float | None:
    """The part of the tracked files that the globs match; None if they cannot be counted."""
    from leasefs.core.globs import globs_of
    from leasefs.vcs.errors import VcsError
    from leasefs.vcs.territory_files import share_of

    try:
        return share_of(place.roots.mountpoint, globs_of(tuple(globs)))
    except (VcsError, OSError):
        return None
