"""A name that is about to change, as the policy is asked about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.core.policy import Place, Target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasefs.mount.inodes import Node
    from leasefs.mount.tree import Tree


class Name(Target):
    """A name of the tree that is about to change; what is there now is looked at only where that counts."""

    __slots__ = ("_name", "_parent", "_tree")

    def __init__(
        self, tree: Tree, parent: Node, name: bytes, path: bytes, place: Place, whole_tree: bool
    ) -> None:
        self.path = path
        self.place = place
        self.whole_tree = whole_tree
        self.tracked = False
        self.aliases = ()
        self._tree, self._parent, self._name = tree, parent, name

    def is_somebodys(self) -> bool:
        """Whether the name is somebody's file, and so no companion of an atomic save."""
        if self.tracked:
            return True
        tree = self._tree
        found = tree.look(self._parent, self._name)
        if found is None:
            return tree.ground.is_tracked(self.path)
        return not tree.companions.is_ours(self.path, tree.inodes.key_of(found))

    def is_beside(self, name: bytes) -> bool:
        """See `Target`."""
        return self._tree.look(self._parent, name) is not None

    def read_beside(self, pid: int) -> Sequence[bytes]:
        """See `Target`."""
        tree, directory = self._tree, self._parent
        read = [file.node for file in tree.handles.files() if file.pid == pid and not file.writes]
        return [tree.path_of(directory, one.name) for one in read if one.parent is directory]

    def changed_since_read(self, pid: int, beside: bytes = b"") -> bool:
        """See `Target`."""
        tree, name = self._tree, beside or self._name
        if tree.readings is None:
            return False
        path = tree.path_of(self._parent, name) if beside else self.path
        return tree.readings.knows(path) and tree.was_changed(
            path, pid, tree.look(self._parent, name)
        )
