"""An unmount that does not come about is told, with the reason, and never reported as done."""

from __future__ import annotations

import contextlib
import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.core.errors import NotMounted
from leasefs_cli import detaching
from leasefs_cli.commands import unmount

if TYPE_CHECKING:
    from pathlib import Path

PLACE = "/home/dev/repo"


def fake_helper(folder: Path, monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    """A fusermount3 that fails, and a caller who is an ordinary user."""
    helper = folder / "fusermount3"
    helper.write_text(f"#!/bin/sh\n{says}\nexit 1\n")
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


@pytest.mark.parametrize(
    ("says", "told"),
    [
        (
            f"echo 'fusermount3: failed to unmount {PLACE}: Device or resource busy' >&2",
            "Device or resource busy",
        ),
        (
            "echo 'fusermount3: failed to open /etc/mtab: No such file or directory' >&2",
            "failed to open /etc/mtab: No such file or directory",
        ),
        (":", "fusermount3 ends with 1"),
    ],
)
def test_what_fusermount3_says_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, told: str
) -> None:
    fake_helper(tmp_path, monkeypatch, says)
    with pytest.raises(NotMounted) as caught:
        detaching.detach(PLACE, lazy=False)
    assert caught.value.message == f"cannot unmount {PLACE}: {told}"


def test_a_daemon_that_ends_without_unmounting_has_not_unmounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_helper(tmp_path, monkeypatch, "echo 'fusermount3: failed to open /etc/mtab: x' >&2")
    ends_at_once = SimpleNamespace(ends_within=lambda _timeout_s: True)
    monkeypatch.setattr(unmount, "Watched", lambda _pid: contextlib.nullcontext(ends_at_once))
    monkeypatch.setattr(
        unmount, "Link", lambda *_, **__: SimpleNamespace(send=lambda _request: None)
    )
    monkeypatch.setattr(unmount, "control_url", lambda _daemon: "unix:/nowhere")
    still: Any = SimpleNamespace(device=7)
    monkeypatch.setattr(unmount, "top_at", lambda _place: still)
    daemon: Any = SimpleNamespace(pid=4711, mountpoint=PLACE)
    with pytest.raises(NotMounted, match=r"cannot unmount .*/etc/mtab"):
        unmount._stop(daemon, still, lazy=False)
