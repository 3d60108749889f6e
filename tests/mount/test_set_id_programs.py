"""A mount gives nobody another's rights: it is nosuid and nodev, whoever made it, and so are its redirects."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.mount_trees import NOBODY
from leasefs.testing.mounted import as_user, mounted
from leasefs.testing.redirected import fill, until_redirected

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.mount, pytest.mark.root]


def effective_user(program: Path) -> int:
    """Whom it runs as if an ordinary user starts it."""
    command = [*as_user(NOBODY), str(program), "-u"]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def opens(device: Path) -> bool:
    try:
        os.close(os.open(device, os.O_RDONLY))
    except PermissionError:
        return False
    return True


def test_set_id_programs_and_devices_give_no_rights(place: Path) -> None:
    source, root = place / "source", place / "mount"
    root.mkdir()
    fill(source / "build")
    (source / ".gitignore").write_text("build/\n")
    subprocess.run(["git", "init", "-q", source], check=True)
    places = ["", "build"]
    for name in places:
        shutil.copy(shutil.which("id") or "", source / name / "id")
        (source / name / "id").chmod(0o4755)
        os.mknod(source / name / "null", 0o020666, os.makedev(1, 3))
        assert effective_user(source / name / "id") == 0
        assert opens(source / name / "null")
    with mounted(str(source), str(root), "--redirects") as mount:
        until_redirected(mount, "build")
        for name in places:
            assert (root / name / "id").stat().st_mode & 0o7777 == 0o4755
            assert effective_user(root / name / "id") == NOBODY
            assert not opens(root / name / "null")
