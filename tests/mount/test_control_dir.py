"""`.leasefs/` at the root of the mount: readable by any tool, changed by none (P10)."""

from __future__ import annotations

import errno
import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasefs.testing.mounted import Mounted, mounted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.mount, pytest.mark.root]


@pytest.fixture(scope="module")
def mount(place: Path) -> Iterator[Mounted]:
    (place / "source/.leasefs").mkdir(parents=True)
    (place / "source/.leasefs/agent").write_text("a liar")
    (place / "source/f").write_text("x")
    (place / "mount").mkdir()
    with mounted(str(place / "source"), str(place / "mount"), "--lease", "**") as child:
        yield child


def test_says_whose_mount_it_is(mount: Mounted) -> None:
    """A `.leasefs` of the lower tree is hidden by the mount's own."""
    assert Path(mount.root, ".leasefs/agent").read_text() == "agent-07\n"
    assert "agent" in os.listdir(f"{mount.root}/.leasefs")


def test_is_found_by_name_but_not_listed(mount: Mounted) -> None:
    assert os.listdir(mount.root) == ["f"]
    assert os.path.isdir(f"{mount.root}/.leasefs")


def test_sizes_are_right_and_contents_never_stale(mount: Mounted) -> None:
    path = Path(mount.root, ".leasefs/leases.json")
    with open(f"{mount.root}/f", "a"):
        held = json.loads(path.read_bytes())
        assert held[0]["kept_by"] == [f"{os.getpid()} f"]
        assert path.stat().st_size == len(path.read_bytes())
    mount.hold({"token": 2, "globs": ["a/*", "b"], "trusted_for_s": -1})
    assert json.loads(path.read_bytes())[0]["trusted_for_s"] == 0
    text = Path(mount.root, ".leasefs/leases").read_text()
    assert text == "lease-2 exclusive a/* b (lapsed)\n"
    mount.hold({"token": 1, "globs": ["**"]})


def test_refusals_explain_themselves(mount: Mounted) -> None:
    """P10: who, what, why, and what to do next."""
    mount.hold()
    subprocess.run(["sh", "-c", f"echo x > {mount.root}/new"], capture_output=True, check=False)
    [last, *_] = json.loads(Path(mount.root, ".leasefs/refusals.json").read_bytes())
    assert last["program"] == "sh"
    assert (last["operation"], last["path"], last["errno"]) == ("create", "new", "EACCES")
    assert last["next"] == "claim it first: leasefs claim new"
    assert "sh[" in Path(mount.root, ".leasefs/refusals").read_text()
    mount.hold({"token": 1, "globs": ["**"]})


@pytest.mark.parametrize(
    "command",
    [
        "echo x > .leasefs/agent",
        "echo x > .leasefs/new",
        "rm .leasefs/agent",
        "mkdir .leasefs/d",
        "mv f .leasefs/f",
        "mv .leasefs/agent a",
        "chmod 777 .leasefs/agent",
        "rmdir .leasefs",
        "mv .leasefs x",
        "ln f .leasefs/f",
        "ln .leasefs/agent a",
        "truncate -s 0 .leasefs/agent",
        "setfattr -n user.a -v 1 .leasefs/agent",
    ],
)
def test_cannot_be_changed(mount: Mounted, command: str) -> None:
    done = subprocess.run(
        ["sh", "-c", command], cwd=mount.root, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert os.strerror(errno.EROFS) in done.stderr
    assert Path(mount.root, ".leasefs/agent").read_text() == "agent-07\n"
    assert Path(mount.source, ".leasefs/agent").read_text() == "a liar"


@pytest.mark.parametrize("in_the_tree", [True, False])
def test_its_name_is_refused_whatever_lies_beneath(mount: Mounted, in_the_tree: bool) -> None:
    """Also where the tree beneath has no such name, and a look there would find nothing."""
    if not in_the_tree:
        os.rename(f"{mount.source}/.leasefs", f"{mount.source}/moved")
    control, name = f"{mount.root}/.leasefs", f"{mount.root}/new"
    calls: list[Callable[[], object]] = [
        lambda: os.rename(control, name),
        lambda: os.rename(f"{mount.root}/f", control),
        lambda: os.rmdir(control),
        lambda: os.chmod(control, 0o777),
    ]
    mount.hold({"token": 1, "globs": ["**"]})
    before = len(mount.report()["refusals"])
    for call in calls:
        with pytest.raises(OSError, match=r"Read-only|Is a directory|Not a directory"):
            call()
    assert len(mount.report()["refusals"]) > before
    reasons = {refusal["reason"] for refusal in mount.report()["refusals"][before:]}
    assert reasons == {"CONTROL"}
    assert not os.path.exists(name)
