"""A Debian system in a directory, booted with systemd-nspawn: what scripts/systemd_trial works in."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

SUITE = "bookworm"
# Where debootstrap does not find packages by itself.
MIRROR = os.environ.get("LEASEFS_TRIAL_MIRROR", "")
PACKAGES = "python3,python3-venv,fuse3,git,systemd,systemd-sysv,libpam-systemd,dbus,dbus-user-session,procps"
BOOT_TIMEOUT_S = 120.0
RUN_TIMEOUT_S = 180.0


class NotPossible(Exception):
    """This machine cannot do it; the message says what it lacks."""


class Unexpected(Exception):
    """A step did not end as it must."""


def require() -> None:
    """Raise NotPossible unless a container can be made and booted here."""
    if os.geteuid() != 0:
        raise NotPossible("only root can boot a container")
    for tool, package in (
        ("debootstrap", "debootstrap"),
        ("systemd-nspawn", "systemd-container"),
        ("nsenter", "util-linux"),
    ):
        if shutil.which(tool) is None:
            raise NotPossible(f"{tool} is not installed: apt-get install {package}")
    if not Path("/dev/fuse").exists():
        raise NotPossible("/dev/fuse does not exist")
    if sys.version_info[:2] != (3, 11):
        raise NotPossible(f"wheels for {SUITE} are built with its own Python 3.11")


def base_system(cache: Path) -> Path:
    """A bare system, made once and kept in `cache`."""
    base = cache / f"{SUITE}-base"
    if not (base / ".complete").exists():
        shutil.rmtree(base, ignore_errors=True)
        print(f"making a {SUITE} system in {base}")
        mirror = [MIRROR] if MIRROR else []
        call("debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(base), *mirror)
        (base / ".complete").touch()
    return base


def call(*command: str, cwd: Path | None = None) -> str:
    """Run a command on this machine. Raises Unexpected with what it said."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)
    if done.returncode:
        raise Unexpected(
            f"`{' '.join(command)}` ended with {done.returncode}: {done.stdout}{done.stderr}"
        )
    return done.stdout


class Container:
    """A booted system; at the end it is powered off, whatever happened."""

    def __init__(self, root: Path, place: Path) -> None:
        """Boot the system in `root`; what its console shows goes to a file in `place`."""
        self._root = root
        self._console = place / "console"
        self._fuse = place / "fuse"
        if not self._fuse.exists():
            # Open to everybody, as udev makes it; this machine's own may not be.
            os.mknod(self._fuse, stat.S_IFCHR, os.stat("/dev/fuse").st_rdev)
            self._fuse.chmod(0o666)
        self.leader = 0
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._console.open("ab") as out:
            # Its filter of system calls lacks open_by_handle_at(2), by which a dead mount in place is mounted over.
            return subprocess.Popen(
                [
                    *("systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit"),
                    *(
                        "--private-network",
                        f"--bind={self._fuse}:/dev/fuse",
                        "--console=pipe",
                        "-D",
                        str(self._root),
                    ),
                ],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={**os.environ, "SYSTEMD_SECCOMP": "0"},
            )

    def __enter__(self) -> Self:
        try:
            self.booted()
        except BaseException:
            self.off()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.off()

    def booted(self) -> None:
        """Wait until its systemd has started everything."""
        deadline_s = time.monotonic() + BOOT_TIMEOUT_S
        while time.monotonic() < deadline_s:
            self.leader = self._leader()
            if self.leader:
                state = self.try_run("systemctl", "is-system-running", "--wait").stdout.strip()
                if state in {"running", "degraded"}:
                    return
            if self._process.poll() is not None:
                raise Unexpected("the container ended while it booted")
            time.sleep(0.2)
        raise Unexpected(f"the container did not boot within {BOOT_TIMEOUT_S:g} s")

    def reboot(self) -> None:
        """As its own root would, and wait until it is up again."""
        self.try_run("systemctl", "reboot")
        # Without a unit of its own around it, nspawn ends at a reboot and leaves the rest to whoever started it.
        self._process.wait(BOOT_TIMEOUT_S)
        self.leader = 0
        self._process = self._start()
        self.booted()

    def try_run(self, *command: str, user: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command inside; its outcome."""
        as_user = ["runuser", "-u", user, "--"] if user else []
        # The environment of this machine has no place there.
        clean = ["env", "-i", "PATH=/opt/leasefs/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"]
        inside = ["nsenter", "--target", str(self.leader), "--all", "--root", "--wd"]
        return subprocess.run(
            [*inside, *clean, *as_user, *command],
            capture_output=True,
            text=True,
            check=False,
            timeout=RUN_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
        )

    def run(self, *command: str, user: str = "") -> str:
        """Run a command inside that must succeed; what it printed."""
        done = self.try_run(*command, user=user)
        if done.returncode:
            said = (done.stdout + done.stderr).strip()
            raise Unexpected(f"`{' '.join(command)}` ended with {done.returncode}: {said}")
        return done.stdout

    def background(self, *command: str, user: str) -> subprocess.Popen[bytes]:
        """Start a command inside."""
        inside = ["nsenter", "--target", str(self.leader), "--all", "--root", "--wd"]
        return subprocess.Popen(
            [*inside, "runuser", "-u", user, "--", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def off(self) -> None:
        """Power it off; a container that hangs is killed."""
        if self._process.poll() is None and self.leader:
            self.try_run("systemctl", "poweroff")
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _leader(self) -> int:
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        try:
            found = children.read_text().split()
        except OSError:
            return 0
        return int(found[0]) if found else 0


def install_wheels(root: Path, wheels: Sequence[Path], program: str) -> None:
    """As the README says: a virtual environment of its own, without the network."""
    (root / "wheels").mkdir(exist_ok=True)
    for wheel in wheels:
        shutil.copy(wheel, root / "wheels")
    inside = ["chroot", str(root), "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"]
    call(*inside, "python3", "-m", "venv", program)
    find = ("--no-index", "--find-links", "/wheels", "--quiet", "--disable-pip-version-check")
    call(*inside, f"{program}/bin/pip", "install", *find, "--force-reinstall", "leasefs")
