"""A mount that an ordinary user made with --allow-other, entered by others, root among them.

What they make belongs to the user of the mount, for nobody else can give files away; it is made at once
or not at all. /etc/fuse.conf has to allow such mounts, so each test runs in a mount namespace in which
another file lies over it.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.mount_trees import NOBODY, environment, give

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.mount, pytest.mark.root]

OTHER = 1234

INSIDE = """
import json, subprocess, sys
from leasefs.testing.mounted import mounted
source, mount, script, uid, owner = sys.argv[1:]
user = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--"]
with mounted(source, mount, "--lease", "**", "--allow-other", user=int(owner)):
    done = subprocess.run([*user, "sh", "-c", script], cwd=mount, capture_output=True, text=True)
print(json.dumps([done.returncode, done.stdout, done.stderr]))
"""


@pytest.fixture
def base(place: Path, fuse_for_all: None, request: pytest.FixtureRequest) -> Path:
    base = place / str(abs(hash(request.node.name)))
    for name in ("source", "mount"):
        (base / name).mkdir(parents=True)
    (base / "fuse.conf").write_text("user_allow_other\n")
    (base / "source/secret").write_text("mine")
    (base / "source/secret").chmod(0o600)
    (base / "source/open").mkdir()
    give(base, NOBODY)
    (base / "source/open").chmod(0o777)
    (base / "source/secret").chmod(0o600)
    return base


def run(base: Path, script: str, *, uid: int = OTHER) -> str:
    """Run a script in the mount as `uid`; what it prints."""
    arguments = [str(base / "source"), str(base / "mount"), script, str(uid), str(NOBODY)]
    command = shlex.join([sys.executable, "-c", INSIDE, *arguments])
    cover = f"mount --bind {shlex.quote(str(base / 'fuse.conf'))} /etc/fuse.conf"
    done = subprocess.run(
        ["unshare", "--mount", "--propagation=private", "sh", "-ec", f"{cover}; {command}"],
        cwd="/",
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    code, out, err = json.loads(done.stdout)
    assert code == 0, err
    return str(out)


MAKE = """set -e; cd open; umask 022; echo x > f; mkdir d; mkfifo p; ln -s f l
stat -c %u f d p l; cat f"""


@pytest.mark.parametrize("uid", [OTHER, 0], ids=["another user", "root"])
def test_what_others_make_belongs_to_the_user_of_the_mount(base: Path, uid: int) -> None:
    assert run(base, MAKE, uid=uid).split() == [str(NOBODY)] * 4 + ["x"]


def test_what_others_make_does_not_run_as_that_user(base: Path) -> None:
    program = (
        "import os; os.umask(0); os.close(os.open('open/f', os.O_CREAT | os.O_WRONLY, 0o6755))"
    )
    fifo = "import os; os.umask(0); os.mknod('open/g', 0o104755)"
    shown = run(
        base, f'python3 -c "{program}"; python3 -c "{fifo}"; stat -c %a open/f open/g', uid=OTHER
    )
    assert shown.split() == ["755", "755"]


def test_the_user_of_the_mount_may_set_them(base: Path) -> None:
    program = (
        "import os; os.umask(0); os.close(os.open('open/f', os.O_CREAT | os.O_WRONLY, 0o4755))"
    )
    assert run(base, f'python3 -c "{program}"; stat -c %a open/f', uid=NOBODY).strip() == "4755"


def test_modes_hold_for_others(base: Path) -> None:
    assert run(base, "! cat secret; ! echo x > secret; ! echo x > beside; ! rm secret") == ""
    assert (base / "source/secret").read_text() == "mine"
    assert not (base / "source/beside").exists()


def test_default_acls_beat_the_umask(base: Path) -> None:
    acl = "setfacl -d -m u::rwx,g::rwx,o::r-x open; umask 077; touch open/f; stat -c %a open/f"
    assert run(base, acl, uid=NOBODY).strip() == "664"
    assert run(base, "umask 027; touch open/g; stat -c %a open/g", uid=OTHER).strip() == "664"


def test_the_callers_umask_counts(base: Path) -> None:
    shown = run(base, "umask 027; touch open/f; mkdir open/d; stat -c %a open/f open/d", uid=OTHER)
    assert shown.split() == ["640", "750"]
