"""Which leases could overlap a glob, found without looking at those that cannot.

A glob is filed under its leading literal components. Two globs can overlap only if one's literal
prefix continues the other's, so a look-up reads the entries along the way down to its own prefix,
and, if it has a wildcard there, everything filed below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from immutables import Map

if TYPE_CHECKING:
    from collections.abc import Iterable

    from leasefs.core.globs import Glob

_Key = tuple[str, tuple[bytes, ...]]
_Ids = Map[str, None]
_NO_IDS: _Ids = Map()
_Change = Callable[[Map[_Key, _Ids], _Key, str], Map[_Key, _Ids]]


class GlobIndex:
    """An immutable index from globs to ids; every change gives a new one sharing most of the old."""

    __slots__ = ("_at", "_below")

    def __init__(
        self, at: Map[_Key, _Ids] | None = None, below: Map[_Key, _Ids] | None = None
    ) -> None:
        self._at: Map[_Key, _Ids] = Map() if at is None else at
        self._below: Map[_Key, _Ids] = Map() if below is None else below

    def __eq__(self, other: object) -> bool:
        """Whether the same is filed in both."""
        if not isinstance(other, GlobIndex):
            return NotImplemented
        return self._at == other._at and self._below == other._below

    def __hash__(self) -> int:
        return hash((self._at, self._below))

    def adding(self, territory: str, globs: Iterable[Glob], id_: str) -> GlobIndex:
        """The index with `id_` filed under each of `globs`."""
        return self._filed(_with, territory, globs, id_)

    def removing(self, territory: str, globs: Iterable[Glob], id_: str) -> GlobIndex:
        """The index without `id_`."""
        return self._filed(_without, territory, globs, id_)

    def _filed(self, change: _Change, territory: str, globs: Iterable[Glob], id_: str) -> GlobIndex:
        at, below = self._at, self._below
        for glob in globs:
            prefix = glob.literal_prefix
            at = change(at, (territory, prefix), id_)
            for depth in range(len(prefix)):
                below = change(below, (territory, prefix[:depth]), id_)
        return GlobIndex(at, below)

    def candidates(self, territory: str, globs: Iterable[Glob]) -> set[str]:
        """Ids of all filed globs that could overlap one of `globs`; some may turn out not to."""
        found: set[str] = set()
        at = self._at
        if not len(at):  # nothing is filed: most often so for waiters
            return found
        for glob in globs:
            prefix = glob.literal_prefix
            for depth in range(len(prefix) + 1):
                ids = at.get((territory, prefix[:depth]))
                if ids is not None:
                    found.update(ids)
            if not glob.prefix_is_whole:
                found.update(self._below.get((territory, prefix), _NO_IDS))
        return found


def _with(files: Map[_Key, _Ids], key: _Key, id_: str) -> Map[_Key, _Ids]:
    return files.set(key, files.get(key, _NO_IDS).set(id_, None))


def _without(files: Map[_Key, _Ids], key: _Key, id_: str) -> Map[_Key, _Ids]:
    ids = files.get(key, _NO_IDS)
    if id_ not in ids:
        return files
    ids = ids.delete(id_)
    return files.set(key, ids) if len(ids) else files.delete(key)
