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

from leasefs.mount.mountinfo import top_at
from leasefs.testing.mounted import as_user

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


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
    run = tempfile.mkdtemp(prefix=f"{suite}-", dir=settings.work)
    plain, beneath, mounted, xdg = _ground(run, settings)
    try:
        with _mounted(beneath, mounted, xdg, settings.mount_user):
            yield Place(plain, plain, settings), Place(mounted, beneath, settings)
    finally:
        if top_at(mounted) is None:
            shutil.rmtree(run, ignore_errors=True)


def _ground(run: str, settings: Settings) -> Iterator[str]:
    """Make the directories of a run, each for whom it is meant."""
    os.chmod(run, 0o755)  # programs run as other users, too
    programs = settings.user if settings.mount_user is None else settings.mount_user
    owners = {
        "plain": programs,
        "under": programs,
        "mount": settings.mount_user,
        "xdg": settings.mount_user,  # sockets lie in it: a short path
    }
    for name, owner in owners.items():
        path = os.path.join(run, name)
        os.mkdir(path, 0o755)
        if owner is not None:
            os.chown(path, owner, owner)
        yield path


@contextmanager
def _mounted(source: str, mountpoint: str, xdg: str, user: int | None) -> Iterator[None]:
    """A mount with its own ledger, and all of it leased."""
    homes = dict.fromkeys(("XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"), xdg)
    env = {**os.environ, **homes, "LEASEFS_LEDGER": "", "LEASEFS_CONFIG_SYSTEM": ""}
    for name in [name for name in env if name.startswith("LEASEFS_SUITE_")]:
        del env[name]  # ours, and no setting of leasefs
    owner = [] if user is None else as_user(user)

    def leasefs(*arguments: str, cwd: str = "/") -> None:
        # The owner enters it, not we, whom a user's mount does not let in.
        command = [*owner, "env", f"--chdir={cwd}", _leasefs(), *arguments]
        subprocess.run(command, env=env, check=True, cwd="/", stdout=subprocess.DEVNULL)

    leasefs("mount", source, mountpoint, "--agent", "suites")
    try:
        leasefs("claim", "**", "--ttl", "12h", "--quiet", cwd=mountpoint)
        yield
    except BaseException:
        # What was cut short may have left programs behind that are still in there.
        leasefs("unmount", "--lazy", mountpoint)
        raise
    leasefs("unmount", mountpoint)


def _leasefs() -> str:
    beside = os.path.join(os.path.dirname(sys.executable), "leasefs")
    return beside if os.path.exists(beside) else "leasefs"
