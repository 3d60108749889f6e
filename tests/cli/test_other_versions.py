"""The command line, a ledger and a mount in processes that speak different versions: each is told which to upgrade."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.core.protocol import MAJOR
from leasefs.mount.mountinfo import top_at
from leasefs.testing.ledger_process import LedgerProcess

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_SPEAK = """\
import leasefs, runpy, sys
leasefs.__version__ = {release!r}
from leasefs.core import protocol
protocol.MAJOR = {major}
"""
_CLI = "from leasefs_cli.main import main\nsys.exit(main())"
_LEDGER = "runpy.run_module('leasefs.service', run_name='__main__')"


def speaking(major: int, code: str) -> list[str]:
    """Python that runs `code` as a release of leasefs with another major version."""
    return [sys.executable, "-c", _SPEAK.format(major=major, release=f"{major}.5.0") + code]


def leasefs(major: int, *arguments: str, cwd: Path) -> tuple[int, dict[str, Any], str]:
    done = subprocess.run(
        [*speaking(major, _CLI), *arguments, "--json"],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    root.mkdir()
    (root / "a").touch()
    subprocess.run(["git", "init", "-q", root], check=True)
    return root


@pytest.fixture
def upgrade_ledgers(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From then on, a LedgerProcess is one of the next major version."""

    def command(socket_path: str, store: str) -> list[str]:
        return [*speaking(MAJOR + 1, _LEDGER), "--socket", socket_path, "--store", store]

    return partial(monkeypatch.setattr, "leasefs.testing.ledger_process.command", command)


def test_a_newer_ledger_has_the_command_upgraded(
    upgrade_ledgers: Callable[[], None],
    tree: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    upgrade_ledgers()
    with LedgerProcess(str(tmp_path)) as ledger:
        monkeypatch.setenv("LEASEFS_LEDGER", f"unix:{ledger.socket_path}")
        code, said, err = leasefs(MAJOR, "leases", cwd=tree)
        assert (code, said["error"]["code"], said["error"]["exit_code"]) == (11, "protocol", 11)
        details = said["error"]["details"]
        assert details["upgrade"] == "client"
        assert details["to"] == {"protocol": "2.0", "leasefs": "2.5.0"}
        assert details["sides"]["client"]["protocol"] == "1.0"
        assert "upgrade the client to leasefs 2.5.0 or later" in err
        assert len(err.splitlines()) == 1
        # What runs there can be found out, and ended, whatever it speaks.
        code, said, _ = leasefs(MAJOR, "ledger", "status", cwd=tree)
        assert (code, said["protocol"]) == (0, "2.0")
        code, said, _ = leasefs(MAJOR, "doctor", cwd=tree)
        assert code == 1
        (finding,) = (one for one in said["findings"] if one["check"] == "ledger")
        assert "protocol 2.0" in finding["found"]
        assert leasefs(MAJOR, "ledger", "stop", cwd=tree)[0] == 0
        assert ledger.process.wait(20) == 0


def test_an_older_ledger_is_the_one_to_upgrade(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LedgerProcess(str(tmp_path)) as ledger:
        monkeypatch.setenv("LEASEFS_LEDGER", f"unix:{ledger.socket_path}")
        code, said, err = leasefs(MAJOR + 1, "leases", cwd=tree)
        assert (code, said["error"]["details"]["upgrade"]) == (11, "ledger")
        assert "upgrade the ledger to leasefs 2.5.0 or later, then restart it" in err
        assert leasefs(MAJOR, "leases", cwd=tree)[0] == 0


@pytest.mark.mount
@pytest.mark.slow
def test_a_mount_of_before_is_named_and_can_be_unmounted(installed: Any, tree: Path) -> None:
    ran = installed("mount", str(tree), "--agent", "ada")
    assert ran.code == 0, ran.err
    code, said, err = leasefs(MAJOR + 1, "leases", cwd=tree)
    assert (code, said["error"]["details"]["upgrade"]) == (11, "mount")
    assert "upgrade the mount to leasefs 2.5.0 or later, then unmount and mount again" in err
    assert leasefs(MAJOR + 1, "unmount", str(tree), cwd=tree.parent)[0] == 0
    assert top_at(str(tree)) is None
    assert installed("ledger", "stop").code == 0


@pytest.mark.mount
@pytest.mark.slow
def test_a_ledger_that_was_upgraded_past_a_mount_is_as_if_it_were_away(
    installed: Any,
    upgrade_ledgers: Callable[[], None],
    tree: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing new is granted, what is trusted still is, the message names the mount, and it ends in order (P12)."""
    with LedgerProcess(str(tmp_path)) as ledger:
        monkeypatch.setenv("LEASEFS_LEDGER", f"unix:{ledger.socket_path}")
        ran = installed("mount", str(tree), "--agent", "ada")
        assert ran.code == 0, ran.err
        ran = installed("claim", "a", cwd=tree)
        assert ran.code == 0, ran.err
        ledger.stop()
    upgrade_ledgers()
    with LedgerProcess(str(tmp_path)):
        (tree / "a").write_text("still mine\n")
        ran = installed("claim", "b", "--json", cwd=tree)
        assert ran.code == 11, ran.err
        assert json.loads(ran.out)["error"]["details"]["upgrade"] == "mount"
        ran = installed("unmount", str(tree))
        assert ran.code == 0, ran.err
        assert (tree / "a").read_text() == "still mine\n"


@pytest.mark.mount
@pytest.mark.slow
def test_a_ledger_of_another_version_is_not_mounted_with(
    installed: Any,
    upgrade_ledgers: Callable[[], None],
    tree: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    upgrade_ledgers()
    with LedgerProcess(str(tmp_path)) as ledger:
        monkeypatch.setenv("LEASEFS_LEDGER", f"unix:{ledger.socket_path}")
        ran = installed("mount", str(tree), "--agent", "ada", "--json")
        assert ran.code == 11, ran.err
        assert json.loads(ran.out)["error"]["details"]["upgrade"] == "mount"
    assert top_at(str(tree)) is None
