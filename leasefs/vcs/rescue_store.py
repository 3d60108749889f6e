"""The rescues of a repository: commits below `refs/leasefs/rescue/`, which nothing but leasefs looks at.

The refs lie in the common directory, so all worktrees of a clone see them. Everything here blocks.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from leasefs.core.paths import shown
from leasefs.vcs.errors import GitFailed, NoSuchRescue, RescueFailed
from leasefs.vcs.gitdir import GitDir
from leasefs.vcs.objects import Objects
from leasefs.vcs.plumbing import child_options, command_line, run_git
from leasefs.vcs.rescue_record import (
    PREFIX,
    RESCUE_ID,
    About,
    NotARescue,
    Problem,
    Rescue,
    message,
    parse,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from leasefs.vcs.quarantine import Quarantine
    from leasefs.vcs.rescue_record import KeptPath

_NAME = "leasefs"
_CHUNK_BYTES = 1 << 20
_ATTEMPTS = 5
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Commit(NamedTuple):
    """The headers of a commit that matter here, and its message."""

    tree: str
    parents: tuple[str, ...]
    message: str


class Made(NamedTuple):
    """A rescue's ref and commit, and whether it is new or was there already with the very same content."""

    ref: str
    commit: str
    is_new: bool


def store(
    new: Quarantine,
    tree: str,
    head: str,
    about: About,
    paths: Sequence[KeptPath],
    problems: Sequence[Problem],
) -> Made:
    """Make the commit, bring all objects out of the quarantine, and then the ref: under the first free name.

    Raises:
        GitFailed: git could not.
        OSError: objects could not be brought out.
        RescueFailed: others kept taking the name.
    """
    commit = ""
    for attempt in range(_ATTEMPTS):
        with Objects(new.gitdir, new.owner) as objects:
            free, same = _place(objects, tree, head, about, paths)
        if same is not None:
            return same
        if not commit:
            text = message(about, paths, problems)
            commit = _commit(new, tree, head, about, text)
            new.publish()
        try:
            _make_ref(new.gitdir, new.owner, free, commit)
        except GitFailed:
            if attempt == _ATTEMPTS - 1:
                raise
        else:
            return Made(free, commit, is_new=True)
    raise RescueFailed(f"no name is free for the rescue of lease {about.lease}")


def rescues(repository: GitDir) -> list[Rescue]:
    """All rescues, by id; also refs there that hold none, each with a problem that says so.

    Raises:
        GitFailed: the repository cannot be read.
    """
    owner = os.fstat(repository.common_fd)
    repository = repository.of_clone()
    arguments = ["for-each-ref", "--format=%(refname)", PREFIX]
    refs = run_git(repository, arguments, owner=owner).decode(errors="surrogateescape").split()
    with Objects(repository, owner) as objects:
        return [_rescue(objects, ref) for ref in refs]


def read(repository: GitDir, rescue_id: str) -> Rescue:
    """One rescue: its paths, their kinds and modes.

    Raises:
        NoSuchRescue: there is none of this id, or its ref holds something else.
        GitFailed: the repository cannot be read.
    """
    with Objects(repository.of_clone(), os.fstat(repository.common_fd)) as objects:
        if not RESCUE_ID.fullmatch(rescue_id) or not objects.commit(PREFIX + rescue_id):
            raise NoSuchRescue(
                f"no rescue {rescue_id!r} in this repository; `leasefs rescue list` lists them"
            )
        found = _rescue(objects, PREFIX + rescue_id)
    if not found.about.lease:
        raise NoSuchRescue(f"{found.ref} holds no rescue: {found.problems[0].why}")
    return found


def content(repository: GitDir, rescue_id: str, path: bytes) -> Iterator[bytes]:
    """The bytes of a file, or the text of a link, piece by piece.

    Raises:
        NoSuchRescue: no such rescue, or nothing with bytes at `path` in it.
        GitFailed: the repository cannot be read, or the object is missing.
    """
    found = read(repository, rescue_id).holds(path)
    if found is None or not found.blob:
        what = f"only that {shown(path)} is {found.kind.value}" if found else f"no {shown(path)}"
        raise NoSuchRescue(f"rescue {rescue_id} holds {what}; `leasefs rescue show {rescue_id}`")
    return blob(repository, found.blob)


def blob(repository: GitDir, id_: str) -> Iterator[bytes]:
    """The content of a blob, piece by piece; GitFailed if it is missing or git ends early."""
    owner = os.fstat(repository.common_fd)
    try:
        child: subprocess.Popen[bytes] = subprocess.Popen(
            command_line(["cat-file", "blob", id_]),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            **child_options(repository.of_clone(), owner),
        )
    except OSError as error:
        raise GitFailed(f"git cannot be run: {error.strerror}; install git") from error
    return _pieces(child, id_)


def drop(repository: GitDir, rescue_id: str) -> None:
    """Remove a rescue's ref; git removes the objects in its own time.

    Raises:
        NoSuchRescue: there is none of this id.
        GitFailed: git could not.
    """
    owner = os.fstat(repository.common_fd)
    repository = repository.of_clone()
    ref = PREFIX + rescue_id
    listed = run_git(repository, ["for-each-ref", "--format=%(refname)", PREFIX], owner=owner)
    if ref not in listed.decode(errors="surrogateescape").split():
        raise NoSuchRescue(
            f"no rescue {rescue_id!r} in this repository; `leasefs rescue list` lists them"
        )
    run_git(repository, ["update-ref", "--no-deref", "-d", ref], owner=owner)


@contextmanager
def bare_repository(directory: str) -> Iterator[GitDir]:
    """The bare repository at `directory`, made if it is not there: for rescues of a tree that is not git's.

    Raises:
        RescueFailed: it cannot be made or opened.
    """
    try:
        if not os.path.exists(os.path.join(directory, "HEAD")):
            _init(directory)
        fd = os.open(directory, _OPEN)
    except OSError as error:
        raise RescueFailed(f"{directory} cannot be opened: {error.strerror}") from error
    with GitDir(fd, os.dup(fd), inside_tree=False) as gitdir:
        yield gitdir


def place_outside(state_directory: str, root_path: str) -> str:
    """Where the rescues of a tree without git lie, by the tree's own path: a directory for `bare_repository`."""
    name = hashlib.sha256(os.fsencode(root_path)).hexdigest()[:16]
    return os.path.join(state_directory, "rescues", f"{name}.git")


def _init(directory: str) -> None:
    os.makedirs(directory, mode=0o700, exist_ok=True)
    surroundings = {n: value for n, value in os.environ.items() if not n.startswith("GIT_")}
    arguments = ["init", "--bare", "--quiet", "--template=", "--", directory]
    done = subprocess.run(
        command_line(arguments), env=surroundings, capture_output=True, check=False
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()[:500]
        raise RescueFailed(f"no repository can be made at {directory}: {said}")


def _place(
    objects: Objects, tree: str, head: str, about: About, paths: Sequence[KeptPath]
) -> tuple[str, Made | None]:
    """The first name that is free, and the rescue before it that is the same already."""
    number = 1
    while True:
        ref = f"{PREFIX}{about.lease}" + (f"-{number}" if number > 1 else "")
        commit = objects.commit(ref)
        if not commit:
            return ref, None
        found = _rescue(objects, ref)
        headers = _headers(objects, commit)
        alike = (found.about.token, found.paths) == (about.token, tuple(paths))
        if alike and headers.tree == tree and found.parent == head:
            return ref, Made(ref, commit, is_new=False)
        number += 1


def _commit(new: Quarantine, tree: str, head: str, about: About, text: str) -> str:
    """Write the commit. Not by `git commit-tree`, which would want to see the parent, and that is not in quarantine."""
    who = f"{_NAME} <{_NAME}> {max(0, int(about.wall_s))} +0000"
    parent = [f"parent {head}"] if head else []
    lines = [f"tree {tree}", *parent, f"author {who}", f"committer {who}", "", text]
    arguments = ["hash-object", "-w", "-t", "commit", "--stdin"]
    said = run_git(
        new.gitdir,
        arguments,
        owner=new.owner,
        stdin="\n".join(lines).encode(),
        variables=new.variables,
    )
    return said.decode().strip()


def _make_ref(gitdir: GitDir, owner: os.stat_result, ref: str, commit: str) -> None:
    """The ref must not be there yet; no reflog is begun, even where `core.logAllRefUpdates` is `always`."""
    nothing = "0" * len(commit)
    arguments = ["-c", "core.logAllRefUpdates=false", "update-ref", "--no-deref"]
    run_git(gitdir, [*arguments, ref, commit, nothing], owner=owner)


def _rescue(objects: Objects, ref: str) -> Rescue:
    rescue_id = ref.removeprefix(PREFIX)
    commit = ""
    parents: tuple[str, ...] = ()
    try:
        commit = objects.commit(ref)
        _, parents, text = _headers(objects, commit)
        about, paths, problems = parse(text)
    except (GitFailed, NotARescue) as error:
        nobody = About(lease="", token=0, agent="")
        trouble = (Problem(b"", str(error)),)
        return Rescue(rescue_id, ref, commit, "".join(parents[:1]), nobody, (), trouble)
    return Rescue(rescue_id, ref, commit, "".join(parents[:1]), about, paths, problems)


def _headers(objects: Objects, commit: str) -> Commit:
    head, _, text = objects.content(commit).decode(errors="surrogateescape").partition("\n\n")
    fields = [line.partition(" ") for line in head.split("\n")]
    parents = tuple(value for name, _, value in fields if name == "parent")
    return Commit(fields[0][2], parents, text)


def _pieces(child: subprocess.Popen[bytes], id_: str) -> Iterator[bytes]:
    with child:
        try:
            output = child.stdout
            while output and (piece := output.read(_CHUNK_BYTES)):
                yield piece
        except BaseException:
            child.kill()
            raise
    if child.returncode:
        raise GitFailed(f"object {id_} is missing in the repository")
