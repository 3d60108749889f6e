"""What exists means itself; the rest is a glob."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from leasefs.client.understand import Roots, understand
from leasefs.core.errors import BadPath, BadPattern

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    for name in ("app/[slug]", "src/core", "docs"):
        (root / name).mkdir(parents=True)
    for name in ("app/[slug]/page.tsx", "src/core/a.py", "a*b", "src/core/x[1].py"):
        (root / name).write_text("x")
    (root / "latest").symlink_to("docs")
    (root / "dangling").symlink_to("nowhere")
    (tmp_path / "way-in").symlink_to(root)
    (tmp_path / "way-to-src").symlink_to(root / "src")
    return root


@pytest.mark.parametrize(
    ("argument", "cwd", "glob"),
    [
        ("app/[slug]/page.tsx", ".", r"app/\[slug]/page.tsx"),
        ("app/[slug]/*.tsx", ".", r"app/\[slug]/*.tsx"),
        ("*.tsx", "app/[slug]", r"app/\[slug]/*.tsx"),
        ("[slug]", "app", r"app/\[slug]/**"),
        ("a*b", ".", r"a\*b"),
        ("x[1].py", "src/core", r"src/core/x\[1].py"),
        (r"app/\[slug\]", ".", r"app/\[slug]/**"),
        ("docs", ".", "docs/**"),
        ("docs/", ".", "docs/**"),
        ("new/", ".", "new/**"),
        ("./src//core/a.py", ".", "src/core/a.py"),
        ("src/**/*.py", ".", "src/**/*.py"),
        ("../core", "src/core", "src/core/**"),
        ("../*.py", "src/core", "src/*.py"),
        (".", ".", "**"),
        ("..", "src", "**"),
        ("new.txt", "docs", "docs/new.txt"),
        ("latest", ".", "latest"),
        ("dangling", ".", "dangling"),
        ("latest/", ".", "docs/**"),
        ("latest/notes.md", ".", "docs/notes.md"),
    ],
)
def test_a_name_in_the_tree(tree: Path, argument: str, cwd: str, glob: str) -> None:
    here = os.path.normpath(tree / cwd)
    assert understand(argument, Roots(str(tree)), here).glob == glob


@pytest.mark.parametrize(
    ("argument", "glob"),
    [
        ("{tree}", "**"),
        ("{tree}/src/*.py", "src/*.py"),
        ("{top}/way-in", "**"),
        ("{top}/way-in/src/core/a.py", "src/core/a.py"),
        ("{top}/way-in/latest", "latest"),
        ("{top}/way-to-src/core/*.py", "src/core/*.py"),
        ("{top}/way-to-src", "src/**"),
    ],
)
def test_an_absolute_name_through_any_way_in(tree: Path, argument: str, glob: str) -> None:
    typed = argument.format(tree=tree, top=tree.parent)
    assert understand(typed, Roots(str(tree)), "/").glob == glob


def test_the_source_of_a_separate_mount_counts_as_its_tree(tree: Path, tmp_path: Path) -> None:
    other = tmp_path / "mountpoint"
    (other / "src").mkdir(parents=True)
    assert understand(f"{tree}/src", Roots(str(other), str(tree)), "/").glob == "src/**"


@pytest.mark.parametrize("argument", ["..", "../x", "/etc/passwd", "{top}/elsewhere/x", "/"])
def test_outside_the_tree_is_refused(tree: Path, argument: str) -> None:
    with pytest.raises(BadPath, match="outside"):
        understand(argument.format(top=tree.parent), Roots(str(tree)), str(tree))


@pytest.mark.parametrize(
    ("argument", "cwd"),
    [
        *(("", c) for c in (".", "src")),
        *(("!x", c) for c in (".", "src")),
        ("a/../b", "."),
        ("a\0b", "."),
        ("x" * 10_000, "."),
        ("[", "src"),
    ],
)
def test_what_is_no_glob_is_refused_wherever_it_is_typed(
    tree: Path, argument: str, cwd: str
) -> None:
    with pytest.raises(BadPattern):
        understand(argument, Roots(str(tree)), os.path.normpath(tree / cwd))


def test_literal_takes_a_missing_name_as_it_is(tree: Path) -> None:
    understood = understand("new[1]*.py", Roots(str(tree)), str(tree / "src"), literal=True)
    assert understood.glob == r"src/new\[1]\*.py"
    assert understood.meaning == "the path, literally, src/new[1]*.py"
    assert understand("!x", Roots(str(tree)), str(tree), literal=True).glob == r"\!x"


def test_a_name_that_is_not_utf8(tree: Path) -> None:
    raw = os.fsencode(tree) + b"/docs/caf\xe9"
    os.close(os.open(raw, os.O_CREAT))
    understood = understand(os.fsdecode(b"docs/caf\xe9"), Roots(str(tree)), str(tree))
    assert os.fsencode(understood.glob) == b"docs/caf\xe9"
    assert understood.meaning == r"the existing file docs/caf\xe9"


@pytest.mark.parametrize(
    ("argument", "meaning"),
    [
        ("docs", "everything below the directory docs/"),
        ("**", "every path that matches **"),
        ("latest", "the existing symlink latest"),
        ("fresh.txt", "the path fresh.txt, which does not exist yet"),
    ],
)
def test_it_says_what_was_understood(tree: Path, argument: str, meaning: str) -> None:
    assert understand(argument, Roots(str(tree)), str(tree)).meaning == meaning
