"""Checks of the machine: the FUSE device, the mount helper, git, the clock."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import time
from typing import TYPE_CHECKING

from leasefs_cli.checks.finding import FAIL, OK, UNKNOWN, WARN, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

OLDEST_GIT = (2, 30)
FUSE_CONF = "/etc/fuse.conf"
MOUNT_TABLE = "/etc/mtab"
INSTANCES = "/proc/sys/fs/inotify/max_user_instances"
# inotify instances that a mount takes: the tree's, git's, and that of what is redirected.
OF_A_MOUNT = 3


def host_findings() -> Iterator[Finding]:
    """All checks of this file, in the order in which they matter."""
    yield fuse_device()
    yield mount_helper()
    yield mount_table()
    yield allow_other()
    yield bindings()
    yield git()
    yield boot_clock()
    yield watching()


def fuse_device(path: str = "/dev/fuse") -> Finding:
    """Can a FUSE file system be made at all?"""
    advice = (
        "load the module (`modprobe fuse`); in a container start it with `--device /dev/fuse "
        "--cap-add SYS_ADMIN`"
    )
    try:
        found = os.stat(path)
        if not stat.S_ISCHR(found.st_mode):
            return Finding(FAIL, path, "is not a device", advice)
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except PermissionError:
        return Finding(FAIL, path, "may not be opened by you", f"chmod 0666 {path}, as root")
    except OSError as error:
        return Finding(FAIL, path, error.strerror or "cannot be opened", advice)
    return Finding(OK, path, "can be opened")


def mount_helper() -> Finding:
    """An ordinary user mounts through fusermount3, which has to be setuid root."""
    path = shutil.which("fusermount3")
    if path is None:
        return Finding(FAIL, "fusermount3", "not found", "install the package fuse3")
    found = os.stat(path)
    if found.st_uid == 0 and found.st_mode & stat.S_ISUID:
        return Finding(OK, "fusermount3", f"{path}, setuid root")
    advice = f"chown root {path} && chmod u+s {path}, as root"
    level = WARN if os.geteuid() == 0 else FAIL
    return Finding(level, "fusermount3", f"{path} is not setuid root", advice)


def mount_table(path: str = MOUNT_TABLE) -> Finding:
    """Without /etc/mtab fusermount3 mounts for an ordinary user, but never unmounts (bare chroots)."""
    if os.access(path, os.R_OK):
        return Finding(OK, path, "can be read")
    level = WARN if os.geteuid() == 0 else FAIL
    advice = f"fusermount3 unmounts nothing without it: ln -sf ../proc/self/mounts {path}, as root"
    return Finding(level, path, "cannot be read", advice)


def allow_other(path: str = FUSE_CONF) -> Finding:
    """May an ordinary user's mount be used by other users?"""
    if os.geteuid() == 0:
        return Finding(OK, path, "not needed: root may always use allow_other")
    try:
        with open(path, encoding="utf-8", errors="replace") as conf:
            allowed = any(line.strip() == "user_allow_other" for line in conf)
    except OSError as error:
        allowed, problem = False, f"{error.strerror}"
    else:
        problem = "user_allow_other is not set"
    if allowed:
        return Finding(OK, path, "user_allow_other is set")
    advice = f"only your own processes can use your mounts; add the line user_allow_other to {path}"
    return Finding(WARN, path, problem, advice)


def bindings() -> Finding:
    """Is the FUSE library of the mount there? Found, not imported: it costs too much for a look."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return Finding(OK, "pyfuse3", version("pyfuse3"))
    except PackageNotFoundError:
        return Finding(FAIL, "pyfuse3", "not installed", "install leasefs again with pip")


def git() -> Finding:
    """Git says what is ignored and what is tracked."""
    path = shutil.which("git")
    if path is None:
        return Finding(FAIL, "git", "not found", "install git")
    shown = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    words = shown.stdout.split()
    numbers = words[2].split(".") if len(words) > 2 else []
    if len(numbers) < 2 or not (numbers[0].isdigit() and numbers[1].isdigit()):
        return Finding(WARN, "git", f"{path} does not tell its version", "run `git --version`")
    if (int(numbers[0]), int(numbers[1])) < OLDEST_GIT:
        oldest = ".".join(map(str, OLDEST_GIT))
        return Finding(WARN, "git", words[2], f"leasefs is tested with git {oldest} and newer")
    return Finding(OK, "git", words[2])


def boot_clock() -> Finding:
    """Trust in a lease is counted on CLOCK_BOOTTIME, which also runs while the machine sleeps (P3)."""
    try:
        time.clock_gettime(time.CLOCK_BOOTTIME)
    except (AttributeError, OSError) as error:
        return Finding(FAIL, "CLOCK_BOOTTIME", str(error), "leasefs needs Linux 2.6.39 or newer")
    return Finding(OK, "CLOCK_BOOTTIME", "present")


def watching(limit: str = INSTANCES, proc: str = "/proc") -> Finding:
    """Is there room for another mount to hear of what others change beneath it? See inotify(7)."""
    try:
        with open(limit, encoding="ascii") as file:
            most = int(file.read())
    except (OSError, ValueError) as error:
        return Finding(UNKNOWN, "inotify", f"{limit} cannot be read: {error}")
    used = _instances(proc, os.geteuid())
    found = f"{used} of {most} instances of this user are in use, a mount takes {OF_A_MOUNT}"
    if used + OF_A_MOUNT <= most:
        return Finding(OK, "inotify", found)
    advice = (
        "the next mount would hear of others' changes late, and of foreign writes not at all: as root, "
        "`echo fs.inotify.max_user_instances=1024 > /etc/sysctl.d/60-inotify.conf && sysctl --system`"
    )
    return Finding(WARN, "inotify", found, advice)


def _instances(proc: str, uid: int) -> int:
    """How many the processes of this user have open; those that may not be looked at count as none."""
    used = 0
    for process in filter(str.isdigit, os.listdir(proc)):
        with contextlib.suppress(OSError):
            if os.stat(f"{proc}/{process}").st_uid != uid:
                continue
            for fd in os.listdir(f"{proc}/{process}/fd"):
                with contextlib.suppress(OSError):
                    used += os.readlink(f"{proc}/{process}/fd/{fd}") == "anon_inode:inotify"
    return used
