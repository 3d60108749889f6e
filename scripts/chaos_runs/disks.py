"""Small file systems that can be filled: ext4 in a file, through a loop device; tmpfs where there are none."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time


class Disk:
    """A small file system mounted at `place`. `kind` is loop or tmpfs, or empty if it is no file system of its own."""

    def __init__(self, place: str, image: str, size_mib: int) -> None:
        self.place = place
        os.makedirs(place, mode=0o700, exist_ok=True)
        self.kind, self.why = _made(place, image, size_mib)
        os.chmod(place, 0o700)
        self._filling = os.path.join(place, ".filling")

    def fill(self) -> int:
        """Leave no room; returns how many bytes that took."""
        fd = os.open(self._filling, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            size = 1 << 20
            while size:
                try:
                    os.write(fd, bytes(size))
                except OSError:
                    size //= 2
            return os.fstat(fd).st_size
        finally:
            os.close(fd)

    def free(self) -> None:
        """Make room again."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._filling)

    def unmount(self) -> str:
        """Take it away; returns what stands against that."""
        if not self.kind:
            return ""
        said = ""
        for _ in range(50):
            done = subprocess.run(
                ["umount", self.place], capture_output=True, text=True, check=False
            )
            if done.returncode == 0:
                return ""
            said = done.stderr.strip()
            time.sleep(0.1)
        subprocess.run(["umount", "-l", self.place], capture_output=True, check=False)
        return said


def _made(place: str, image: str, size_mib: int) -> tuple[str, str]:
    """What kind it is, and why it is not better."""
    if os.geteuid() != 0:
        return "", "only root may mount"
    why = _on_a_loop_device(place, image, size_mib)
    if not why:
        os.rmdir(os.path.join(place, "lost+found"))
        return "loop", ""
    done = _mount(["-t", "tmpfs", "-o", f"size={size_mib}m,mode=700", "chaos", place])
    return ("tmpfs", why) if done.returncode == 0 else ("", f"{why}; {done.stderr.strip()}")


def _on_a_loop_device(place: str, image: str, size_mib: int) -> str:
    """Empty, or why not."""
    maker = shutil.which("mkfs.ext4")
    if maker is None:
        return "no mkfs.ext4"
    with open(image, "wb") as file:
        file.truncate(size_mib << 20)
    command = [maker, "-q", "-m", "0", image]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        done = _mount(["-o", "loop", image, place])
    if done.returncode == 0:
        return ""
    return done.stderr.strip().split("\n")[0] or f"exit {done.returncode}"


def _mount(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
