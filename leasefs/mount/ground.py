"""What kind of ground a path stands on: tree, scratch, git directory, control directory."""

from __future__ import annotations

from typing import Protocol

from leasefs.core.policy import Place

CONTROL_NAME = b".leasefs"


class Ground(Protocol):
    """Answers at once. May raise `gate.Wanting` when rules have to be read first."""

    def place(self, path: bytes, *, is_dir: bool) -> Place:
        """The kind of ground. In doubt it is TREE, which needs a lease."""
        ...

    def is_tracked(self, path: bytes) -> bool:
        """Whether git tracks the path."""
        ...

    def is_scratch_tree(self, directory: bytes) -> bool:
        """Whether everything below the directory is scratch."""
        ...

    def is_git_root(self, path: bytes) -> bool:
        """Whether the path is the territory's git directory itself."""
        ...

    def holds_tracked(self, directory: bytes) -> bool:
        """Whether git tracks something below the directory. In doubt it does."""
        ...

    def doubt(self, directory: bytes) -> None:
        """Take nothing on trust at the next question about the directory."""
        ...

    def directory_changed(self, path: bytes) -> None:
        """A directory came to this path, went from it, or moved."""
        ...

    def changed(self, path: bytes) -> None:
        """This path was changed through the mount; rules that depend on it are read again."""
        ...


def is_control(path: bytes) -> bool:
    """Whether the path is the control directory or below it."""
    return path == CONTROL_NAME or path.startswith(CONTROL_NAME + b"/")


class TreeOnly:
    """The ground without git: everything but the control directory is tree."""

    def place(self, path: bytes, *, is_dir: bool) -> Place:
        """TREE, or CONTROL."""
        return Place.CONTROL if is_control(path) else Place.TREE

    def is_tracked(self, path: bytes) -> bool:
        """Nothing is tracked."""
        return False

    def is_scratch_tree(self, directory: bytes) -> bool:
        """Nothing is scratch."""
        return False

    def is_git_root(self, path: bytes) -> bool:
        """There is no git directory."""
        return False

    def holds_tracked(self, directory: bytes) -> bool:
        """Nothing is known to be untracked."""
        return True

    def doubt(self, directory: bytes) -> None:
        """Nothing is taken on trust."""

    def directory_changed(self, path: bytes) -> None:
        """There are no rules to read again."""

    def changed(self, path: bytes) -> None:
        """There are no rules to read again."""
