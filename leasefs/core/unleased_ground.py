"""What ground to claim for a change that no lease covers. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasefs.core.companions import bases_of, has_no_base
from leasefs.core.errors import InvalidRequest
from leasefs.core.globs import literal_glob, literal_tree, parse_glob
from leasefs.core.lease import MAX_GLOBS
from leasefs.core.policy import Op, Place, Target

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from leasefs.core.held import HeldView

# A directory may have the name of a temporary file; no editor saves one.
_OF_DIRECTORIES = frozenset({Op.MKDIR, Op.RMDIR})
_DO_AWAY_WITH = frozenset({Op.TRUNCATE, Op.RENAME, Op.UNLINK})


class Regions:
    """The directories of a territory that are claimed as a whole, when a path in one of them is."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        """Read globs of directories, such as `docs/` and `packages/*/`, the latter for each package apart.

        Raises:
            InvalidRequest: one is no glob, or does not end in a slash.
        """
        self.texts = tuple(texts)
        for text in self.texts:
            if not text.rstrip("/") or not text.endswith("/"):
                raise InvalidRequest(f"a region is a directory and ends in a slash, not {text!r}")
        self._globs = [parse_glob(text.rstrip("/")) for text in self.texts]

    def around(self, path: bytes, *, itself: bool = False) -> bytes | None:
        """The smallest region that contains the path, as its directory; perhaps the path `itself`."""
        end = len(path) if itself else path.rfind(b"/")
        while end > 0:
            if any(glob.matches(path[:end]) for glob in self._globs):
                return path[:end]
            end = path.rfind(b"/", 0, end)
        return None

    def may_be_below(self, directory: bytes) -> bool:
        """Whether there may be a region strictly below the directory."""
        return any(glob.may_match_below(directory) for glob in self._globs)


def ground_for(
    op: Op,
    targets: Sequence[Target],
    view: HeldView,
    now_s: float,
    regions: Regions,
    pid: int = 0,
) -> tuple[str, ...]:
    """The globs to claim, all at once, so that the operation of thread `pid` may change all of its targets.

    Empty if no claim could help: the root itself, more names than one claim may have.
    """
    globs: dict[str, None] = {}
    paths = {target.path for target in targets}
    for target in targets:
        for path in target.aliases:
            if view.writable(path, now_s) is None:
                globs |= dict.fromkeys(_file(path, regions))
        if target.place is Place.TREE:
            if not target.path:
                return ()
            globs |= dict.fromkeys(_one(op, target, view, now_s, regions, pid, paths))
    return tuple(globs) if len(globs) <= MAX_GLOBS else ()


def _one(
    op: Op,
    target: Target,
    view: HeldView,
    now_s: float,
    regions: Regions,
    pid: int,
    changing: set[bytes],
) -> Iterable[str]:
    path = target.path
    if target.whole_tree:
        return () if view.covers_tree(path, now_s) else _tree(path, regions)
    if view.writable(path, now_s) is not None:
        return ()
    if op is Op.MKDIR:
        # What is made in it next is its maker's; where it is divided into regions, those are claimed one by one.
        return _file(path, regions) if regions.may_be_below(path) else _tree(path, regions)
    if op not in _OF_DIRECTORIES and not target.aliases and not target.is_somebodys():
        saved = _saved(target, view, now_s, pid, changing)
        if saved is not None:
            return [text for one in saved for text in _file(one, regions)]
    return _file(path, regions)


def _saved(
    target: Target, view: HeldView, now_s: float, pid: int, changing: set[bytes]
) -> Sequence[bytes] | None:
    """The files to claim if the target is a companion of a file that is being saved; None if it is none."""
    directory, slash, name = target.path.rpartition(b"/")
    for base in bases_of(name):
        path = directory + slash + base
        if path in changing or view.writable(path, now_s) is not None:
            return ()
        if target.is_beside(base):
            return (path,)
    if has_no_base(name):
        # Its name does not say what is saved (`sed -i`, `perl -i`); what is being read does.
        read = target.read_beside(pid)
        return [path for path in read if view.writable(path, now_s) is None] or None
    return None


def ground_of_files(paths: Iterable[bytes], regions: Regions) -> list[tuple[str, ...]]:
    """The globs to claim for all of these files, in as few claims as will do."""
    globs = list(dict.fromkeys(text for path in paths for text in _file(path, regions)))
    return [tuple(globs[at : at + MAX_GLOBS]) for at in range(0, len(globs), MAX_GLOBS)]


def saves_unleased(
    op: Op, targets: Sequence[Target], view: HeldView, now_s: float, pid: int
) -> bytes | None:
    """A file that the operation of thread `pid` begins to save, by a companion whose name does not say so, unleased.

    Another leased file of the directory lets the companion pass; what it replaces in the end is better claimed now.
    """
    if op is not Op.CREATE or not has_no_base(targets[0].path.rpartition(b"/")[2]):
        return None
    read = targets[0].read_beside(pid)
    return next((path for path in read if view.writable(path, now_s) is None), None)


def written_over(op: Op, targets: Sequence[Target], pid: int) -> bytes | None:
    """A file that others changed after thread `pid` read it, and whose content the operation does away with."""
    if op in _DO_AWAY_WITH:
        for target in targets:
            if target.changed_since_read(pid):
                return target.path
    elif op is Op.CREATE and has_no_base(targets[0].path.rpartition(b"/")[2]):
        for path in targets[0].read_beside(pid):
            if targets[0].changed_since_read(pid, path.rpartition(b"/")[2]):
                return path
    return None


def _file(path: bytes, regions: Regions) -> tuple[str, ...]:
    region = regions.around(path)
    return (literal_glob(path).text,) if region is None else _whole(region)


def _tree(path: bytes, regions: Regions) -> tuple[str, ...]:
    region = regions.around(path, itself=True)
    return _whole(path if region is None else region)


def _whole(directory: bytes) -> tuple[str, ...]:
    return (literal_glob(directory).text, literal_tree(directory).text)
