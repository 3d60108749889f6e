"""All intents of a ledger, found by lease, by path of a tree, and by the ground that they lie on.

Immutable like the rest of the state. What an agent changed under one lease is a `Work`. It outlives its lease
and its agent's session, until each of its intents has ended. Nothing here looks at works that it is not about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from immutables import Map
from msgspec import Struct, field

from leasefs.core.globs import globs_of, literal_glob, literal_tree
from leasefs.core.index import GlobIndex
from leasefs.core.intents import IntentState
from leasefs.core.lease import MAX_GLOBS
from leasefs.core.paths import MAX_PATH_BYTES, components
from leasefs.core.records import Holder, Intent, Tree, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from leasefs.core.globs import Glob

_MAX_GLOBS = 32
_Paths = Map[tuple[str, str], Map[str, tuple[str, ...]]]
_NO_PATHS: Map[str, tuple[str, ...]] = Map()


class Work(Struct, frozen=True):
    """What an agent changed under a lease and has not landed, in any tree; `dirty` counts the uncommitted.

    `handed_on` says that its lease was given back for others to build upon what is uncommitted.
    """

    lease: str
    agent: str
    globs: tuple[str, ...]
    dirty: int = 0
    intents: Map[tuple[str, str], Intent] = field(default_factory=Map)
    handed_on: bool = False


_NO_WORKS: Map[str, Work] = Map()


class Uncommitted(Struct, frozen=True):
    """`works` by territory and `work_id`; `at` the ids of works by territory and tree, then path."""

    works: Map[str, Map[str, Work]] = field(default_factory=Map)
    at: Map[tuple[str, str], Map[str, tuple[str, ...]]] = field(default_factory=Map)
    ground: GlobIndex = field(default_factory=GlobIndex)
    trees: Map[tuple[str, str], Tree] = field(default_factory=Map)

    def work(self, territory: str, lease: str, agent: str) -> Work | None:
        """What this agent changed under this lease."""
        return self.works.get(territory, _NO_WORKS).get(work_id(lease, agent))

    def of_path(self, territory: str, tree: str, path: str) -> list[Intent]:
        """The intents of one path: one of each work that it belongs to."""
        works = self.works.get(territory, _NO_WORKS)
        ids = self.at.get((territory, tree), _NO_PATHS).get(path, ())
        return [works[id_].intents[tree, path] for id_ in ids]

    def near(self, territory: str, globs: tuple[Glob, ...]) -> Iterator[Work]:
        """The works whose ground could overlap `globs`."""
        works = self.works.get(territory, _NO_WORKS)
        for id_ in sorted(self.ground.candidates(territory, globs)):
            yield works[id_]

    def counts(self, territory: str | None = None) -> tuple[int, int]:
        """How many are dirty, and how many committed and not landed; of one territory, or of all."""
        ones = self.works.values() if territory is None else [self.works.get(territory, _NO_WORKS)]
        all_ = dirty = 0
        for works in ones:
            for work in works.values():
                all_ += len(work.intents)
                dirty += work.dirty
        return dirty, all_ - dirty

    def having(self, territory: str, tree: Tree) -> Uncommitted:
        """The same, knowing where that tree is."""
        return replace(self, trees=self.trees.set((territory, tree.id), tree))

    def putting(
        self, territory: str, intents: Iterable[Intent], globs: dict[str, tuple[str, ...]]
    ) -> Uncommitted:
        """With these intents new, or in place of what was known; `globs` of live leases, by id of work."""
        found = self
        for id_, ones in _by_work(intents).items():
            before = self.works.get(territory, _NO_WORKS).get(id_)
            # What had grown beside the lease's ground stays: what lies there is still uncommitted.
            ground = (*(before.globs if before else ()), *globs.get(id_, ()))
            known = tuple(dict.fromkeys(ground))
            found = _with_work(found, territory, id_, ones, _grown(known, before, ones))
            if before is not None and before.handed_on:
                found = found.handing_on(territory, id_, handed_on=False)
        return found

    def handing_on(self, territory: str, id_: str, *, handed_on: bool = True) -> Uncommitted:
        """The same, with what others are to make of this work; one that is not known is not made."""
        works = self.works.get(territory, _NO_WORKS)
        if id_ not in works:
            return self
        works = works.set(id_, replace(works[id_], handed_on=handed_on))
        return replace(self, works=self.works.set(territory, works))

    def restating(self, territory: str, intents: Iterable[Intent]) -> Uncommitted:
        """With these intents in place of what was known of them."""
        found = self
        for id_, ones in _by_work(intents).items():
            globs = self.works[territory][id_].globs
            found = _with_work(found, territory, id_, ones, globs)
        return found

    def without(
        self, territory: str, tree: str, ended: Iterable[tuple[str, Holder]]
    ) -> Uncommitted:
        """Without the intents of these paths and holders; all of them are known."""
        by_work: dict[str, list[str]] = {}
        for path, holder in ended:
            by_work.setdefault(work_id(holder.lease, holder.agent), []).append(path)
        found = self
        for id_, paths in by_work.items():
            found = _without_paths(found, territory, tree, id_, paths)
        return found


def work_id(lease: str, agent: str) -> str:
    """The id of a work. No agent's name has a slash in it, so no two are the same."""
    return f"{agent}/{lease}"


def ground_of(paths: Iterable[bytes]) -> tuple[str, ...]:
    """A few globs that cover these paths: exact where few enough, else the directories that they are in."""
    for depth in (16, 8, 4, 3, 2, 1):
        globs = {_cut_off(path, depth) for path in paths}
        if len(globs) <= _MAX_GLOBS:
            return tuple(sorted(globs))
    return ("**",)


def _cut_off(path: bytes, depth: int) -> str:
    names = components(path.rstrip(b"/"))
    above = b"/".join(names[:depth])
    if len(above) > MAX_PATH_BYTES:
        return _cut_off(path, depth // 2)
    is_whole_file = 0 < len(names) <= depth and not path.endswith(b"/")
    return (literal_glob(above) if is_whole_file else literal_tree(above)).text


def _by_work(intents: Iterable[Intent]) -> dict[str, list[Intent]]:
    found: dict[str, list[Intent]] = {}
    for intent in intents:
        found.setdefault(work_id(intent.lease, intent.agent), []).append(intent)
    return found


def _with_work(
    state: Uncommitted,
    territory: str,
    id_: str,
    intents: list[Intent],
    globs: tuple[str, ...],
) -> Uncommitted:
    works = state.works.get(territory, _NO_WORKS)
    before = works.get(id_) or Work(intents[0].lease, intents[0].agent, ())
    changed, dirty, new = before.intents.mutate(), before.dirty, []
    for intent in intents:
        key = intent.tree, intent.path
        old = changed.get(key)
        dirty += _is_dirty(intent) - (old is not None and _is_dirty(old))
        changed[key] = intent
        if old is None:
            new.append(key)
    work = replace(before, globs=globs, dirty=dirty, intents=changed.finish())
    ground = state.ground
    if before.globs != globs:
        ground = ground.removing(territory, globs_of(before.globs), id_)
        ground = ground.adding(territory, globs_of(globs), id_)
    return replace(
        state,
        works=state.works.set(territory, works.set(id_, work)),
        at=_filed(state.at, territory, new, id_),
        ground=ground,
    )


def _grown(known: tuple[str, ...], before: Work | None, intents: list[Intent]) -> tuple[str, ...]:
    """The ground of a work: its lease's, and what else these intents lie on, reported when that was over."""
    globs = globs_of(known)
    beside = [
        path for path in (_raw(intent.path) for intent in intents) if not _all_on(path, globs)
    ]
    if not beside:
        return known
    grown = tuple(dict.fromkeys((*known, *ground_of(beside))))
    if before is None or len(grown) <= MAX_GLOBS + _MAX_GLOBS:
        return grown
    return ground_of([*(_raw(path) for _, path in before.intents), *beside])


def _all_on(path: bytes, globs: tuple[Glob, ...]) -> bool:
    """Whether `path` lies on that ground; a directory only if it does with all that is below it."""
    if path.endswith(b"/") or not path:
        return any(glob.is_tree and glob.matches(path + b"x") for glob in globs)
    return any(glob.matches(path) for glob in globs)


def _without_paths(
    state: Uncommitted, territory: str, tree: str, id_: str, paths: list[str]
) -> Uncommitted:
    works = state.works[territory]
    work = works[id_]
    left, dirty = work.intents.mutate(), work.dirty
    for path in paths:
        dirty -= _is_dirty(left.pop((tree, path)))
    intents = left.finish()
    at = _unfiled(state.at, (territory, tree), paths, id_)
    ground, trees = state.ground, state.trees
    if len(intents):
        works = works.set(id_, replace(work, dirty=dirty, intents=intents))
    else:
        works = works.delete(id_)
        ground = ground.removing(territory, globs_of(work.globs), id_)
    if (territory, tree) not in at and (territory, tree) in trees:
        trees = trees.delete((territory, tree))
    all_ = state.works.set(territory, works) if len(works) else state.works.delete(territory)
    return Uncommitted(all_, at, ground, trees)


def _filed(at: _Paths, territory: str, new: list[tuple[str, str]], id_: str) -> _Paths:
    by_tree: dict[str, list[str]] = {}
    for tree, path in new:
        by_tree.setdefault(tree, []).append(path)
    for tree, paths in by_tree.items():
        filed = at.get((territory, tree), _NO_PATHS).mutate()
        for path in paths:
            filed[path] = tuple(sorted((*filed.get(path, ()), id_)))
        at = at.set((territory, tree), filed.finish())
    return at


def _unfiled(at: _Paths, tree: tuple[str, str], paths: list[str], id_: str) -> _Paths:
    filed = at[tree].mutate()
    for path in paths:
        ids = tuple(one for one in filed.pop(path) if one != id_)
        if ids:
            filed[path] = ids
    left = filed.finish()
    return at.set(tree, left) if len(left) else at.delete(tree)


def _is_dirty(intent: Intent) -> bool:
    return intent.state is IntentState.DIRTY


def _raw(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
