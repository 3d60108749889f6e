r"""Matching against pathspec's GitIgnoreSpec and against git itself.

`/GLOB` in a gitignore file ignores a path if our GLOB matches the path or a directory above it.

Where pathspec (1.1.1) is not git, found by comparing the three:

* its classes match a slash when negated (`[!a]`) or when a range runs over it (`[--0]`);
* it knows no backslash inside a class (`[\]a]`) and no POSIX classes (`[[:alpha:]]`);
* a class with a slash (`[a/b]`) is taken apart at the slash.

Where git (2.39) is not its own documentation: `c**/a` and `a/***/b` span directories there (undefined
behaviour in wildmatch.c, put right later), which pathspec and we read as `*`. Where we are neither:
we normalise `a//b` and `./a`, which never match in gitignore files, and `a/` is all below `a`. So git
gets the canonical text for those; that it means the same is shown against brute force elsewhere.
"""

from __future__ import annotations

import random
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from pathspec import GitIgnoreSpec

from leasefs.core.errors import BadPattern
from leasefs.core.globs import Glob, parse_glob
from leasefs.core.paths import ancestors

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = ["a", "b", ".", "c", "*", "?", "/", "**/", "/**", "[ab]", "[a-c]", r"\*", "{a,b}"]
HARD = [
    "[!a]",
    "[^b]",
    "[[:alpha:]]",
    "[[:punct:]x]",
    "[]a]",
    r"[\]a]",
    "[--b]",
    "[a/b]",
    r"\a",
    "**",
]


def globs(tokens: list[str], count: int, seed: int) -> list[tuple[str, Glob]]:
    chosen = random.Random(seed)
    found: dict[str, Glob] = {}
    while len(found) < count:
        pattern = "".join(chosen.choices(tokens, k=chosen.randint(1, 6)))
        try:
            found[pattern] = parse_glob(pattern)
        except BadPattern:
            continue
    return list(found.items())


def some_paths(seed: int, count: int) -> list[bytes]:
    chosen = random.Random(seed)
    found: set[bytes] = set()
    while len(found) < count:
        names = [
            "".join(
                chosen.choices("abc.*-{}", weights=[6, 6, 3, 2, 1, 1, 0, 0], k=chosen.randint(1, 3))
            )
            for _ in range(chosen.choice([1, 1, 2, 2, 3, 4]))
        ]
        if not {".", ".."} & set(names):
            found.add("/".join(names).encode())
    return sorted(found | {b"{a,b}", b"x{a,b}/a", b"a{a,b}", b"]", b"a]"})


PATHS = some_paths(1, 1200)


def ours(glob: Glob) -> set[bytes]:
    return {
        path
        for path in PATHS
        if glob.matches(path) or any(glob.matches(above) for above in ancestors(path) if above)
    }


def by_pathspec(pattern: str) -> set[bytes]:
    spec = GitIgnoreSpec.from_lines(["/" + pattern], backend="simple")
    return {path for path in PATHS if spec.match_file(path.decode())}


class Git:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        subprocess.run(["git", "init", "-q", directory], check=True)

    def ignored(self, pattern: str, paths: list[bytes]) -> set[bytes]:
        (self._directory / ".gitignore").write_bytes(b"/" + pattern.encode() + b"\n")
        done = subprocess.run(
            ["git", "-C", self._directory, "check-ignore", "--no-index", "-z", "--stdin"],
            input=b"\0".join(paths),
            capture_output=True,
            check=False,
        )
        assert done.returncode in {0, 1}, done.stderr
        return set(done.stdout.split(b"\0")) - {b""}


@pytest.fixture
def git(tmp_path: Path) -> Git:
    assert shutil.which("git")
    return Git(tmp_path)


def test_matching_agrees_with_pathspec() -> None:
    wrong = [
        pattern
        for pattern, glob in globs(PLAIN, 200, seed=2)
        if ours(glob) != by_pathspec(glob.text)
    ]
    assert wrong == []


@pytest.mark.slow
def test_matching_agrees_with_pathspec_for_thousands() -> None:
    wrong = [
        pattern
        for pattern, glob in globs(PLAIN, 3000, seed=3)
        if ours(glob) != by_pathspec(glob.text)
    ]
    assert wrong == []


def means_something_else_to_git(pattern: str) -> bool:
    return (
        pattern.endswith(("/", " "))
        or "//" in pattern
        or {".", ""} & set(pattern.split("/")) != set()
    ) or any("**" in part and part != "**" for part in pattern.split("/"))


def check_with_git(git: Git, count: int, seed: int) -> None:
    as_spelt = 0
    for pattern, glob in globs(PLAIN + HARD, count, seed):
        expected = ours(glob)
        assert git.ignored(glob.text, PATHS) == expected, (pattern, glob.text)
        if glob.text != pattern and not means_something_else_to_git(pattern):
            as_spelt += 1
            assert git.ignored(pattern, PATHS) == expected, pattern
    assert as_spelt > count // 10


def test_matching_agrees_with_git(git: Git) -> None:
    check_with_git(git, 60, seed=4)


@pytest.mark.slow
def test_matching_agrees_with_git_for_hundreds(git: Git) -> None:
    check_with_git(git, 1200, seed=5)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("a[!b]c", b"a/c"),
        ("a[--b]c", b"a/c"),
        (r"[\]a]b", b"ab"),
        ("[[:alpha:]]b", b"ab"),
        ("[a/b]c", b"ac"),
    ],
)
@pytest.mark.filterwarnings("ignore:Possible nested set:FutureWarning")
def test_where_pathspec_is_not_git_we_are_git(git: Git, pattern: str, path: bytes) -> None:
    spec = GitIgnoreSpec.from_lines(["/" + pattern], backend="simple")
    glob = parse_glob(pattern)
    by_git = git.ignored(pattern, [path]) == {path}
    assert glob.matches(path) == by_git
    assert spec.match_file(path.decode()) != by_git
