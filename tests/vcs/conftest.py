from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.git_tree import GitTree
from leasefs.testing.judged import make_history

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _own_configuration(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith(("GIT_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))


@pytest.fixture
def make_tree(tmp_path: Path) -> Iterator[Callable[[str], GitTree]]:
    """Make a directory below `tmp_path`; it is no repository until `git init` is run in it."""
    with ExitStack() as resources:

        def make(name: str) -> GitTree:
            path = tmp_path / name
            path.mkdir(exist_ok=True)
            return GitTree(os.fsencode(path), resources)

        yield make


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The repository that commands of git are judged in, to be copied."""
    directory = bytes(tmp_path_factory.mktemp("history"))
    make_history(directory)
    return directory


@pytest.fixture
def repo(make_tree: Callable[[str], GitTree]) -> GitTree:
    tree = make_tree("repo")
    tree.git("init", "-q")
    return tree
