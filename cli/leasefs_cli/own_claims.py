"""What a session has, and which of it the arguments of `release` and `heartbeat` name: by id or glob."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from leasefs.client import api
from leasefs.client.understand import understand
from leasefs.core.errors import InvalidRequest, UnknownLease

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs_cli.place import Place

_LEASE_ID = re.compile(r"L[0-9]+")


def is_lease_id(name: str) -> bool:
    """Whether `name` has the form of a lease's id."""
    return _LEASE_ID.fullmatch(name) is not None


def own_leases(place: Place) -> list[api.Body]:
    """What the place's session holds."""
    found = place.link.send(api.leases(place.territory))["leases"]
    return [lease for lease in found if lease["session"] == place.session]


def own_claims(place: Place) -> list[api.Body]:
    """What the place's session holds or waits for."""
    waiters = place.link.send(api.queue(place.territory))["waiters"]
    return own_leases(place) + [waiter for waiter in waiters if waiter["session"] == place.session]


def forget_empty_shell(place: Place) -> None:
    """End a shell's session that holds nothing any more, or its agent's name stays taken for a while.

    Not while another command of the agent uses it: that may be about to claim.
    """
    if place.shell is None:
        return
    from leasefs.client.shell_session import alone_with, end_shell_session

    with alone_with(place.shell) as alone:
        if alone and not own_claims(place):
            end_shell_session(place.link, place.shell)


def ids_named(place: Place, names: Sequence[str], *, waiting: bool = True) -> list[str]:
    """The ids that `names` mean, in that order, each once. Ids are not looked up: the ledger knows.

    A glob may be that of a waiting claim, unless that makes no sense (`waiting`).

    Raises:
        UnknownLease: a glob that no own lease has.
        InvalidRequest: a glob of a lease whose other globs were not named: leases are whole.
    """
    globs = [name for name in names if not is_lease_id(name)]
    if not globs:
        return list(dict.fromkeys(names))
    claims = own_claims(place) if waiting else own_leases(place)
    wanted = {glob: understand(glob, place.roots, os.getcwd()).glob for glob in globs}
    canonical = set(wanted.values())
    ids: list[str] = []
    for name in names:
        ids += [name] if is_lease_id(name) else _covering(wanted[name], name, canonical, claims)
    return list(dict.fromkeys(ids))


def one_named(place: Place, name: str) -> str:
    """The id of the one held lease that `name` means. Raises as `ids_named`, InvalidRequest if it is several."""
    ids = ids_named(place, [name], waiting=False)
    if len(ids) > 1:
        raise InvalidRequest(f"{name!r} is a glob of several leases ({', '.join(ids)}); name one")
    return ids[0]


def _covering(glob: str, typed: str, named: set[str], claims: list[api.Body]) -> list[str]:
    having = [claim for claim in claims if glob in claim["globs"]]
    if not having:
        raise UnknownLease.restored(
            f"you hold no lease over {typed!r}; `leasefs leases --mine` lists yours", {"glob": glob}
        )
    for claim in having:
        rest = [other for other in claim["globs"] if other not in named]
        if rest:
            raise InvalidRequest(
                f"{claim['lease']} covers {typed!r} and also {' '.join(rest)}, and a lease is released "
                f"whole: release {claim['lease']}",
                lease=claim["lease"],
            )
    return [claim["lease"] for claim in having]
