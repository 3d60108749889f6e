"""What `who` and `why` are asked about: a path, a directory, or a glob, and the claims over it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from leasefs.client import api
from leasefs.client.understand import understand
from leasefs.core.errors import InvalidRequest
from leasefs.core.globs import Glob, parse_glob
from leasefs.core.overlap import overlap
from leasefs.core.paths import text

if TYPE_CHECKING:
    from leasefs.client.understand import Roots
    from leasefs_cli.place import View


class Subject(NamedTuple):
    """What the argument means in the territory. A path is a glob that matches only itself."""

    glob: Glob
    territory: str
    roots: Roots


def subject(seen: View, argument: str, *, literal: bool = False) -> Subject:
    """Read the argument where the command was called; `literal` takes it for a name, whatever is in it.

    Raises:
        BadPath, BadPattern: it is no path of this tree, and no glob.
        InvalidRequest: there is no tree here.
    """
    if seen.roots is None or seen.territory is None:
        raise InvalidRequest(
            f"{argument!r} is in no repository and no mount; name a path of one, or go there"
        )
    meaning = understand(argument, seen.roots, os.getcwd(), literal=literal)
    return Subject(parse_glob(meaning.glob), seen.territory, seen.roots)


def claims_over(seen: View, about: Subject) -> tuple[list[api.Body], list[api.Body]]:
    """Leases that are held over it, and claims that wait for it."""
    if about.glob.is_literal:
        call = api.who(about.territory, text(about.glob.literal_path))
        found = seen.link.send(call)["leases"]
    else:
        everyone = [
            *seen.link.send(api.leases(about.territory))["leases"],
            *seen.link.send(api.queue(about.territory))["waiters"],
        ]
        found = [claim for claim in everyone if meets(claim, about.glob)]
    held = [claim for claim in found if claim["state"] != "waiting"]
    return held, [claim for claim in found if claim["state"] == "waiting"]


def meets(claim: api.Body, glob: Glob) -> bool:
    """Whether some path is matched by `glob` and by a glob of the claim."""
    return any(overlap(parse_glob(theirs), glob) is not None for theirs in claim["globs"])
