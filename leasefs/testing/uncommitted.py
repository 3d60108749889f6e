"""What is uncommitted according to git, and according to the ledger, for tests that compare the two."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from leasefs.client import api
from leasefs.testing.eventually import eventually

if TYPE_CHECKING:
    from leasefs.client.blocking import Link

# Asked of the tree beneath, where no mount answers; nobody's configuration has a say.
_SETTINGS = (
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.untrackedCache=false",
    "-c",
    "user.name=t",
    "-c",
    "user.email=t@example.org",
    "-c",
    "protocol.file.allow=always",
)


def git(root: str, *arguments: str, ok: tuple[int, ...] = (0,)) -> bytes:
    """Run git in `root`; an exit status that is not `ok` fails the test with git's words."""
    done = subprocess.run(
        ["git", *_SETTINGS, *arguments], cwd=root, capture_output=True, check=False
    )
    assert done.returncode in ok, (arguments, done.stderr.decode(errors="replace"))
    return done.stdout


def new_repository(root: str) -> None:
    """An empty repository; commits made in it are by somebody."""
    os.makedirs(root, exist_ok=True)
    git(root, "init", "-q", "-b", "main")
    git(root, "config", "user.name", "t")
    git(root, "config", "user.email", "t@example.org")


def git_dirty(root: str) -> set[str]:
    """What differs from HEAD, and what is untracked and not ignored."""
    git(root, "update-index", "-q", "--refresh", ok=(0, 1))
    if git(root, "rev-parse", "-q", "--verify", "HEAD", ok=(0, 1)):
        differs = git(root, "diff", "--no-renames", "--name-only", "-z", "HEAD")
    else:
        differs = git(root, "ls-files", "-z")
    untracked = git(root, "ls-files", "-o", "--exclude-standard", "-z")
    return {os.fsdecode(name) for name in (differs + untracked).split(b"\0") if name}


def ledger_intents(link: Link, state: str = "dirty") -> dict[str, list[api.Body]]:
    """The intents of this state, by path."""
    found: dict[str, list[api.Body]] = {}
    for intent in link.send(api.intents(state=state))["intents"]:
        found.setdefault(intent["path"], []).append(intent)
    return found


def agree(link: Link, root: str, within_s: float = 20.0) -> dict[str, list[api.Body]]:
    """Wait until the ledger's dirty paths are git's; returns their intents."""
    known: dict[str, list[api.Body]] = {}
    dirty: set[str] = set()

    def same() -> bool:
        nonlocal known, dirty
        known, dirty = ledger_intents(link), git_dirty(root)
        return known.keys() == dirty

    try:
        eventually(same, within_s)
    except AssertionError:
        lost, invented = sorted(dirty - known.keys()), sorted(known.keys() - dirty)
        raise AssertionError(
            f"lost: {lost}; invented: {[(p, known[p]) for p in invented]}\n"
            + "\n".join(_history(link, [*lost, *invented][0]))
        ) from None
    return known


def _history(link: Link, path: str) -> list[str]:
    """What the log has of a path."""
    told: list[str] = []
    after, head = 0, 1
    while after < head:
        page = link.send(api.events(after=after))
        told += [str(event) for event in page["events"]]
        after, head = page["events"][-1]["seq"] if page["events"] else head, page["head"]
    return [event for event in told if repr(path) in event]
