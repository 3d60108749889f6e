"""Suites that are fetched: cloned from their public repository once, built once, never committed."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def built(
    name: str, url: str, work: str, product: str, steps: Sequence[Sequence[str]], *, ref: str = ""
) -> str:
    """The directory of a built suite; `product` is the file whose presence says that it is built.

    LEASEFS_SUITE_NAME in the environment names a local copy (a repository or a tree that is built already).
    """
    local = os.environ.get(f"LEASEFS_SUITE_{name.upper()}", "")
    if local and os.path.exists(os.path.join(local, product)):
        return local
    tree = os.path.join(work, "src", name)
    if not os.path.exists(tree):
        branch = ["--branch", ref] if ref else []
        source = f"file://{os.path.abspath(local)}" if local else url
        print(f"{name}: fetching {source}", file=sys.stderr)
        subprocess.run(["git", "clone", "--quiet", "--depth=1", *branch, source, tree], check=True)
    if not os.path.exists(os.path.join(tree, product)):
        print(f"{name}: building in {tree}", file=sys.stderr)
        for step in steps:
            subprocess.run(
                step, cwd=tree, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
    return tree
