"""Who commits here, and whether what they commit lies under their leases: what the git hooks ask.

In a mount the agent is the mount's, and the mount itself knows what it holds; the ledger is asked only about paths that
the mount does not hold. Outside, the agent is the setting `agent.name`, else that of the one mount of this very tree, else that of
the one shell session that holds something here. Who is none of these (a person in their own clone) is only kept from
committing what somebody holds.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from leasefs.client import api
from leasefs.client.address import parse_url
from leasefs.client.api_mount import take_back
from leasefs.client.blocking import Link
from leasefs.client.find import live_mounts
from leasefs.client.names import configured_agent
from leasefs.client.understand import Roots
from leasefs.core.errors import Denied, LeasefsError, LedgerUnavailable
from leasefs.core.globs import parse_glob
from leasefs.core.paths import text
from leasefs.vcs.commit_paths import brought_along, staged_paths
from leasefs_cli.mount_link import MountLink
from leasefs_cli.place import mount_near, roots_of
from leasefs_cli.printing import tell

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from leasefs.client.find import MountFound
    from leasefs.core.globs import Glob
    from leasefs_cli.tree import Tree

_TIMEOUT_S = 5.0


class Committer(NamedTuple):
    """Whose leases count; `agent` is "" for somebody who is no agent. A `mount` is asked before the ledger."""

    agent: str
    territory: str
    roots: Roots
    link: Link
    mount: MountFound | None = None

    def owns(self, lease: api.Body) -> bool:
        """Whether the ledger's lease lets this agent write."""
        if lease["mode"] != "exclusive" or lease["state"] == "revoked":
            return False
        if self.mount is not None:
            return bool(lease["session"] == self.mount.session)
        return bool(lease["agent"] == self.agent)


class Uncovered(NamedTuple):
    """A path that the committer may not commit, and the lease that somebody holds over it, if one is known."""

    path: bytes
    held: api.Body | None


class Verdict(NamedTuple):
    """About one commit: the ids of the committer's leases over it, what stands against it, what was not checked."""

    leases: tuple[str, ...] = ()
    uncovered: tuple[Uncovered, ...] = ()
    unchecked: str = ""


class _Holding(NamedTuple):
    """A lease, and its globs ready to be asked; `given` are the parts that are delegated to others."""

    lease: api.Body
    globs: tuple[Glob, ...]
    given: tuple[Glob, ...] = ()

    def covers(self, path: bytes) -> bool:
        return _meets(self.globs, path) and not _meets(self.given, path)


def _meets(globs: Iterable[Glob], path: bytes) -> bool:
    return any(glob.matches(path) for glob in globs)


def committer() -> Committer | None:
    """Who commits in the current directory; None where no territory can be told.

    Raises:
        NotMounted, Denied, InvalidRequest: as finding a mount and a tree do.
    """
    found = mount_near()
    if found is not None:
        return _through(found, roots_of(found))
    from leasefs_cli.tree import find_tree

    tree = find_tree(None)
    if tree is None:
        return None
    named = configured_agent()
    try:
        return _outside(tree, named)
    except Denied as error:
        if named:
            raise
        # A person whose home is not fit to hold anything of leasefs does not take part.
        tell(f"the commit was checked against no lease: {error.message}")
        return None


def _outside(tree: Tree, named: str) -> Committer:
    roots = Roots(tree.root)
    mounts = [one for one in live_mounts() if one.source == tree.root and named in ("", one.agent)]
    if len(mounts) == 1:
        return _through(mounts[0], roots)
    agent = named or _only_session(tree.territory)
    return Committer(agent, tree.territory, roots, _ledger(start=bool(agent)))


def _through(found: MountFound, roots: Roots) -> Committer:
    link = MountLink(found, timeout_s=_TIMEOUT_S)
    return Committer(found.agent, found.territory, roots, link, found)


def _only_session(territory: str) -> str:
    from leasefs.client.paths import ledger_url
    from leasefs.client.shell_session import stored_sessions

    # As a session is stored: with its ledger's address in full, whichever way that was written.
    here = (territory, parse_url(ledger_url()[0]).url)
    found = [one.agent for one in stored_sessions() if (one.territory, one.ledger) == here]
    return found[0] if len(found) == 1 else ""


def _ledger(*, start: bool) -> Link:
    """A ledger that is not there is started for an agent only: nobody else need know that there is such a thing."""
    if start:
        from leasefs.client.embedded import ledger_link

        return ledger_link(timeout_s=_TIMEOUT_S)
    from leasefs.client.paths import ledger_url

    return Link(ledger_url()[0], timeout_s=_TIMEOUT_S)


def judge_commit(who: Committer) -> Verdict:
    """Whether what is staged may be committed. To be asked in a hook, at the top of the working tree.

    Raises:
        GitFailed: git cannot tell what is staged.
        LeasefsError: as sending does; a ledger that is away is no failure.
    """
    paths = list(_in_territory(staged_paths(), who.roots))
    known = _known_to_mount(who)
    trusted = _trusted(known)
    if who.mount is not None and _took_back(who, _without(paths, trusted)):
        known = _known_to_mount(who)
        trusted = _trusted(known)
    if not _without(paths, trusted):
        return Verdict(_over(trusted, paths))
    try:
        leases = who.link.send(api.leases(who.territory))["leases"]
    except (LedgerUnavailable, Denied) as error:
        return _judged_alone(who, paths, known, error)
    mine = [*trusted, *_holdings(lease for lease in leases if who.owns(lease))]
    others = _holdings(lease for lease in leases if not who.owns(lease))
    found = [Uncovered(path, _first_over(others, path)) for path in _authored(who, paths, mine)]
    if not who.agent:
        found = [one for one in found if one.held is not None]
    return Verdict(_over(mine, paths), tuple(found))


def _trusted(known: list[_Holding]) -> list[_Holding]:
    return [holding for holding in known if holding.lease["trusted_for_s"]]


def _took_back(who: Committer, paths: list[bytes]) -> bool:
    """Whether the mount was asked to claim these again: it gives back what writes claimed soon after they were made."""
    brought = set(_in_territory(brought_along(), who.roots)) if paths else set()
    wanted = [text(path) for path in paths if path not in brought]
    unleased = who.link.send(api.mount()).get("unleased", {}) if wanted else {}
    if "claim" not in str(unleased.get("policy")):
        return False
    who.link.send(take_back(wanted, wait_s=float(unleased.get("wait_s", 0.0))))
    return True


def _judged_alone(
    who: Committer, paths: list[bytes], known: list[_Holding], error: LeasefsError
) -> Verdict:
    """With the ledger away a mount still knows what it never held; a shell knows nothing (P12)."""
    if who.mount is None:
        why = f"the commit was checked against no lease: {error.message}" if who.agent else ""
        return Verdict(unchecked=why)
    never = tuple(Uncovered(path, None) for path in _authored(who, paths, known))
    why = f"who holds what, and whether lapsed leases are still yours, was not checked: {error.message}"
    return Verdict(_over(known, paths), never, why)


def _known_to_mount(who: Committer) -> list[_Holding]:
    if who.mount is None:
        return []
    said = who.link.send(api.mount())
    given = [part for part in said.get("delegations", ()) if part["what"] == "given"]
    away = [glob for part in given for glob in part["globs"]]
    return _holdings(
        {**lease, "lease": lease["id"], "delegated": away}
        for lease in said["leases"]
        if lease["mode"] == "exclusive"
    )


def _holdings(leases: Iterable[api.Body]) -> list[_Holding]:
    return [
        _Holding(
            lease,
            tuple(map(parse_glob, lease["globs"])),
            tuple(map(parse_glob, lease.get("delegated", ()))),
        )
        for lease in leases
    ]


def _authored(who: Committer, paths: list[bytes], mine: list[_Holding]) -> list[bytes]:
    """Those of `paths` that are not under `mine` and that no merge or the like brings from history."""
    left = _without(paths, mine)
    brought = set(_in_territory(brought_along(), who.roots)) if left else set()
    return [path for path in left if path not in brought]


def _without(paths: Iterable[bytes], holdings: Iterable[_Holding]) -> list[bytes]:
    return [path for path in paths if _first_over(holdings, path) is None]


def _over(holdings: Iterable[_Holding], paths: Iterable[bytes]) -> tuple[str, ...]:
    """The leases that cover any of the paths, each once."""
    found = [one.lease["lease"] for one in holdings if any(map(one.covers, paths))]
    return tuple(dict.fromkeys(found))


def _first_over(holdings: Iterable[_Holding], path: bytes) -> api.Body | None:
    return next((holding.lease for holding in holdings if holding.covers(path)), None)


def _in_territory(paths: Iterable[bytes], roots: Roots) -> Iterator[bytes]:
    """Paths from the top of the working tree, here, as the territory names them; others are not its business."""
    top, root = (os.fsencode(os.path.realpath(place)) for place in (".", roots.mountpoint))
    below = root.rstrip(b"/") + b"/"
    for path in paths:
        full = os.path.join(top, path)
        if full.startswith(below):
            yield full.removeprefix(below)
