"""Where rescues lie for a command: in the repository of the tree here, and in the ledger's list of all."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from leasefs.client import api
from leasefs.client.paths import state_dir
from leasefs.client.understand import Roots, understand
from leasefs.core.errors import InvalidRequest, LeasefsError, LedgerUnavailable
from leasefs.core.globs import parse_glob
from leasefs.vcs.errors import NoSuchRescue, VcsError
from leasefs.vcs.gitdir import find_git
from leasefs.vcs.rescue import Rescue, bare_repository, place_outside, read
from leasefs_cli.place import View, view
from leasefs_cli.printing import tell
from leasefs_cli.tree import find_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.vcs.gitdir import GitDir


class RescuePlace(NamedTuple):
    """The tree here, open at `root_fd`; `repository` is None if nothing was ever kept of a tree without git.

    `seen` is None if the ledger could not even be started.
    """

    roots: Roots
    root_fd: int
    repository: GitDir | None
    seen: View | None

    def relative(self, argument: str) -> bytes:
        """A path as it was typed, relative to the tree's root; BadPath if it lies outside."""
        glob = understand(argument, self.roots, os.getcwd(), literal=True).glob
        return parse_glob(glob).literal_path

    def known(self) -> list[api.Body] | None:
        """What the ledger knows of this territory's rescues; None, having said so, if it cannot be asked."""
        if self.seen is not None:
            try:
                found: list[api.Body] = self.seen.link.send(api.rescues(self.seen.territory))[
                    "rescues"
                ]
            except LeasefsError as error:
                tell(f"{error.message}; what lies in other places is not known")
            else:
                return found
        return None

    def require(self, rescue_id: str) -> GitDir:
        """The repository here; NoSuchRescue if there is none."""
        if self.repository is None:
            raise NoSuchRescue(f"no rescue {rescue_id!r}: nothing was ever kept of this tree")
        return self.repository

    def read(self, rescue_id: str) -> tuple[GitDir, Rescue]:
        """A rescue of the repository here, and that repository.

        Raises:
            InvalidRequest: there is none of this id here; the message says where it is, if the ledger knows.
        """
        try:
            repository = self.require(rescue_id)
            return repository, read(repository, rescue_id)
        except NoSuchRescue as error:
            known = {rescue["id"]: rescue for rescue in self.known() or ()}
            elsewhere = known.get(rescue_id)
            if elsewhere is None:
                raise InvalidRequest(str(error), rescue=rescue_id) from error
            raise InvalidRequest(
                f"rescue {rescue_id} is not in this repository but in that of {where(elsewhere)}; go there",
                rescue=elsewhere,
            ) from error


@contextmanager
def rescue_place() -> Iterator[RescuePlace]:
    """Open the place, and turn what git refuses into a failure that the command line can tell.

    Raises:
        InvalidRequest: there is no tree here, or the repository cannot be read.
    """
    seen, roots = _seen()
    root_fd = os.open(roots.mountpoint, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with _repository(root_fd, roots) as repository:
            yield RescuePlace(roots, root_fd, repository, seen)
    except VcsError as error:
        raise InvalidRequest(str(error)) from error
    finally:
        os.close(root_fd)


def where(rescue: api.Body) -> str:
    """`HOST:ROOT`, for a person."""
    return f"{rescue.get('host') or '?'}:{rescue.get('root') or '?'}"


def _seen() -> tuple[View | None, Roots]:
    seen = None
    try:
        seen = view()
        roots = seen.roots
    except LedgerUnavailable as error:
        tell(f"{error.message}; only the repository here is looked at")
        tree = find_tree(None)
        roots = Roots(tree.root) if tree else None
    if roots is None:
        raise InvalidRequest(
            f"{os.getcwd()} is in no repository and no mount; go to the tree whose work was kept"
        )
    return seen, roots


@contextmanager
def _repository(root_fd: int, roots: Roots) -> Iterator[GitDir | None]:
    gitdir = find_git(root_fd)
    if gitdir is not None:
        with gitdir:
            yield gitdir
        return
    place = place_outside(state_dir(), roots.source or os.path.realpath(roots.mountpoint))
    if not os.path.isdir(place):
        yield None
        return
    with bare_repository(place) as gitdir:
        yield gitdir
