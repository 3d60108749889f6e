"""The two places where a suite runs: a plain directory, and a mount of a fresh one on the same file system."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasefs.testing.mounted import as_user

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


_CLAIM = ["claim", "**", "--ttl", "12h", "--quiet"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line asked for. `user` runs the programs, `mount_user` makes the mount; None is who we are."""

    work: str
    user: int | None = None
    mount_user: int | None = None
    only: str = ""
    jobs: int = 1


@dataclass(frozen=True, slots=True)
class Place:
    """A directory in which a suite runs, and how it does."""

    path: str
    beneath: str
    settings: Settings

    def run(
        self,
        command: Sequence[str],
        *,
        cwd: str | None = None,
        timeout_s: float = 600,
        env: dict[str, str] | None = None,
    ) -> tuple[int, str]:
        """Run a program as the suite's user, here unless told otherwise; returns its exit status and output.

        One that takes too long is killed with all its children; its status is then 124, as timeout(1) has it.
        """
        limit = ["timeout", "--kill-after=5", str(timeout_s)]
        # Only the user itself may enter a mount that it made.
        there = ["env", f"--chdir={cwd or self.path}"]
        whole = [*limit, *_as_user(self.settings.user), *there, *command]
        done = subprocess.run(
            whole,
            cwd="/",
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        return done.returncode, done.stdout.decode(errors="replace")


def _as_user(user: int | None) -> list[str]:
    if user is None:
        return []
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--"]


@contextmanager
def places(suite: str, settings: Settings) -> Iterator[tuple[Place, Place]]:
    """A plain directory and a mount under a lease of `**`, both fresh, both gone afterwards."""
    os.makedirs(settings.work, exist_ok=True)
    # Short, because sockets lie in it, and everyone's to enter, because programs run as other users.
    run = tempfile.mkdtemp(prefix=f"{suite}-", dir=settings.work)
    os.chmod(run, 0o755)
    plain, beneath, mounted, xdg = (
        os.path.join(run, name) for name in ("plain", "under", "mount", "xdg")
    )
    for path in (plain, beneath, mounted, xdg):
        os.mkdir(path, 0o755)
    owner = settings.mount_user if settings.mount_user is not None else settings.user
    if owner is not None:
        for path in (plain, beneath):
            os.chown(path, owner, owner)
    if settings.mount_user is not None:
        for path in (mounted, xdg):
            os.chown(path, settings.mount_user, settings.mount_user)
    env = {**os.environ, "XDG_STATE_HOME": xdg, "XDG_RUNTIME_DIR": xdg, "LEASEFS_LEDGER": ""}
    as_owner = [] if settings.mount_user is None else as_user(settings.mount_user)
    leasefs = [*as_owner, _leasefs()]
    try:
        subprocess.run(
            [*leasefs, "mount", beneath, mounted, "--agent", "suites"], env=env, check=True, cwd="/"
        )
        try:
            subprocess.run(
                [*as_owner, "env", f"--chdir={mounted}", _leasefs(), *_CLAIM],
                env=env,
                check=True,
                cwd="/",
                stdout=subprocess.DEVNULL,
            )
            yield Place(plain, plain, settings), Place(mounted, beneath, settings)
        finally:
            subprocess.run([*leasefs, "unmount", mounted], env=env, check=True, cwd="/")
    finally:
        if not os.path.ismount(mounted):
            shutil.rmtree(run, ignore_errors=True)


def _leasefs() -> str:
    beside = os.path.join(os.path.dirname(sys.executable), "leasefs")
    return beside if os.path.exists(beside) else "leasefs"
