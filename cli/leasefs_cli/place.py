"""Where a command acts: the mount that the shell stands in, else the ledger as a shell's session.

Inside a mount nothing need be named: its daemon knows agent, territory and ledger, and its control
socket carries the session's requests. Outside, an agent must be named, so that nobody who forgot to
`cd` believes that a lease protects what they write.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from leasefs.client.find import MountFound, find_mount, mounts_of, require_mount
from leasefs.client.names import configured_agent
from leasefs.client.understand import Roots
from leasefs.core.errors import Denied, InvalidRequest, UnknownLease
from leasefs_cli.mount_link import MountLink
from leasefs_cli.printing import tell

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leasefs.client.blocking import Link
    from leasefs.client.shell_session import ShellSession
    from leasefs_cli.tree import Tree


class Place(NamedTuple):
    """Who acts, and over which link: through a `mount`, or as a stored session of a `shell`."""

    link: Link
    agent: str
    session: str
    territory: str
    roots: Roots
    mount: MountFound | None = None
    shell: ShellSession | None = None


class View(NamedTuple):
    """What is looked at. `territory` None is all of them; `roots` None: not in any tree."""

    link: Link
    territory: str | None
    roots: Roots | None
    mount: MountFound | None


class Ground(NamedTuple):
    """Where a command would act: `enter` makes it a Place, which outside a mount opens a session."""

    roots: Roots
    enter: Callable[[], Place]


def acting_place(agent: str | None = None) -> Place:
    """The place from which leases are claimed or kept. Raises as `ground_here`."""
    return ground_here(agent).enter()


def ground_here(agent: str | None = None, arguments: Sequence[str] = ()) -> Ground:
    """The ground here, before anything is opened or asked.

    `arguments` are paths or globs of the command: from outside, an absolute one leads to its mount.

    Raises:
        NotMounted: not in a mount, and no agent is named.
        Denied: the mount here belongs to another agent than the one named.
        InvalidRequest: not in a mount, and not in a repository.
    """
    found = _mount_of(agent, arguments)
    if found is not None:
        return Ground(roots_of(found), lambda: _in_mount(found))
    named = agent or configured_agent() or _identity_name()
    if not named:
        require_mount(os.getcwd())
    tree = _tree_here()
    return Ground(Roots(tree.root), lambda: _opened_shell(named, tree))


def _identity_name() -> str:
    from leasefs.client.own_name import identity_name

    return identity_name()


def holding_place(agent: str | None = None, arguments: Sequence[str] = ()) -> Place:
    """The place that holds something already. Never opens a session.

    `arguments` as in `ground_here`.

    Raises:
        UnknownLease: outside a mount, and no stored session is there to hold anything.
        InvalidRequest: several are, and none is named.
    """
    found = _mount_of(agent, arguments)
    if found is not None:
        return _in_mount(found)
    return _stored_shell(agent or configured_agent() or None)


def view(path: str | None = None, *, everywhere: bool = False) -> View:
    """What a command that only reads looks at: the territory here, or all if there is none."""
    found = mount_near((path,) if path else ())
    if found is not None:
        territory = None if everywhere else found.territory
        return View(MountLink(found), territory, roots_of(found), found)
    from leasefs.client.embedded import ledger_link
    from leasefs_cli.tree import find_tree

    tree = find_tree(path)
    link = ledger_link()
    if tree is None:
        return View(link, None, None, None)
    return View(link, None if everywhere else tree.territory, Roots(tree.root), None)


def mount_near(arguments: Sequence[str] = ()) -> MountFound | None:
    """The mount of the current directory, else the one that an absolute argument leads into."""
    found = find_mount(os.getcwd())
    if found is not None:
        if found.beneath:
            tell(
                f"this shell entered {found.mountpoint} before it was mounted and still stands in the bare "
                f"tree beneath; `cd {found.mountpoint}` to work through the mount"
            )
        return found
    for argument in arguments:
        if argument.startswith("/"):
            found = find_mount(_existing_directory(argument))
            if found is not None:
                return found
    return None


def roots_of(found: MountFound) -> Roots:
    """Where the mount's tree is seen."""
    return Roots(found.mountpoint, found.source)


def _mount_of(agent: str | None, arguments: Sequence[str]) -> MountFound | None:
    found = mount_near(arguments)
    if found is None and agent is not None:
        return _own_mount_of(agent)
    if found is not None and agent not in (None, found.agent):
        raise Denied(
            f"the mount at {found.mountpoint} is {found.agent}'s, not {agent}'s; leave --agent out, or "
            "go to your own mount",
            agent=found.agent,
        )
    return found


def _own_mount_of(agent: str) -> MountFound | None:
    """The agent's mount of the tree that the shell stands in, when it is mounted elsewhere."""
    here = os.path.realpath(os.getcwd()) + "/"
    for found in mounts_of(agent):
        if found.source and here.startswith(found.source.rstrip("/") + "/"):
            return found
    return None


def _in_mount(found: MountFound) -> Place:
    link = MountLink(found)
    roots = roots_of(found)
    return Place(link, found.agent, found.session, found.territory, roots, mount=found)


def _opened_shell(agent: str, tree: Tree) -> Place:
    from leasefs.client.embedded import ledger_link
    from leasefs.client.names import harness_name
    from leasefs.client.shell_session import shell_session

    link = ledger_link()
    session = shell_session(link, agent=agent, harness=harness_name(), territory=tree.territory)
    return _in_shell(link, session, tree)


def _stored_shell(agent: str | None) -> Place:
    from leasefs.client.embedded import ledger_link
    from leasefs.client.shell_session import stored_sessions

    tree = _tree_here()
    link = ledger_link()
    candidates = [
        session
        for session in stored_sessions()
        if session.territory == tree.territory
        and session.ledger == link.address.url
        and agent in (None, session.agent)
    ]
    if not candidates:
        whose = f"agent {agent!r} holds nothing" if agent else "nobody holds anything"
        raise UnknownLease.restored(
            f"{whose} from a shell in {tree.root}, and this is not a mount; go to the mount that "
            "holds the lease, or see `leasefs leases`",
            {"agent": agent},
        )
    if len(candidates) > 1:
        agents = ", ".join(sorted(session.agent for session in candidates))
        raise InvalidRequest(
            f"several agents hold something here ({agents}); name one with --agent"
        )
    return _in_shell(link, candidates[0], tree)


def _in_shell(link: Link, session: ShellSession, tree: Tree) -> Place:
    link.credentials = session.credentials
    return Place(
        link,
        session.agent,
        session.credentials.session,
        tree.territory,
        Roots(tree.root),
        shell=session,
    )


def _tree_here() -> Tree:
    from leasefs_cli.tree import find_tree

    tree = find_tree(None)
    if tree is None:
        raise InvalidRequest(
            f"{os.getcwd()} is in no repository, so there is no territory to claim in; go to one, or put a "
            "`.leasefs.toml` at its root"
        )
    return tree


def _existing_directory(path: str) -> str:
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path
