"""`leasefs agent`: what it prints and writes, with the installed command and a real ledger."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.core.errors import InvalidRequest
from leasefs.core.tokens import id_of
from leasefs.testing.ledger_process import LedgerProcess
from leasefs_cli import token_out

if TYPE_CHECKING:
    from collections.abc import Iterator

    from leasefs.testing.fake_ledger import FakeLedger

INSTALLED = Path(sys.executable).parent / "leasefs"


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LedgerProcess]:
    place = tmp_path / "ledger"
    place.mkdir(mode=0o700)
    monkeypatch.chdir(tmp_path)
    with LedgerProcess(str(place), store=":memory:") as ledger:
        monkeypatch.setenv("LEASEFS_LEDGER", f"unix:{ledger.socket_path}")
        yield ledger


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_token_is_printed_once_and_alone(served: LedgerProcess, installed: Any) -> None:
    added = installed("agent", "add", "ci-7")
    assert (added.code, added.err) == (0, "")
    token = added.out.rstrip("\n")
    assert id_of(token)
    listed = installed("agent", "list", "--json")
    (agent,) = json.loads(listed.out)["agents"]
    assert (agent["agent"], agent["role"], agent["priority"]) == ("ci-7", "agent", 0)
    for ran in (listed, installed("agent", "list"), installed("log"), installed("log", "--json")):
        assert ran.code == 0
        assert token not in ran.out + ran.err
        assert token.rpartition("_")[2] not in ran.out + ran.err


def test_a_file_for_it_is_new_and_closed_to_others(
    served: LedgerProcess, installed: Any, tmp_path: Path
) -> None:
    os.umask(0o022)
    path = tmp_path / "ci.token"
    assert installed("agent", "add", "ci", "--token-file", str(path)).code == 0
    assert _mode(path) == 0o600
    token = path.read_text().strip()
    assert id_of(token)
    again = installed("agent", "rotate", "ci", "--token-file", str(path))
    assert again.code == 2
    assert "File exists" in again.err
    assert path.read_text().strip() == token
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    assert installed("agent", "rotate", "ci", "--token-file", str(tmp_path / "link")).code == 2
    assert not (tmp_path / "elsewhere").exists()
    rotated = installed("agent", "rotate", "ci", "--token-file", "new", "--grace", "1h", "--json")
    said = json.loads(rotated.out)
    assert said["token_file"] == str(tmp_path / "new")
    assert "token" not in said
    assert said["former_token_good_for_s"] == 3600.0


def test_a_refusal_leaves_no_file(served: LedgerProcess, installed: Any, tmp_path: Path) -> None:
    installed("agent", "add", "ci")
    taken = installed("agent", "add", "ci", "--token-file", "t")
    assert taken.code == 9
    assert "rotate its token" in taken.err
    assert installed("agent", "rotate", "nobody", "--token-file", "t").code == 2
    served.stop()
    assert installed("agent", "add", "two", "--token-file", "t").code == 7
    assert not (tmp_path / "t").exists()


def test_what_the_shell_redirects_is_closed_to_others(
    served: LedgerProcess, tmp_path: Path
) -> None:
    done = subprocess.run(
        ["sh", "-c", f"umask 022; {INSTALLED} agent add ci > token"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert _mode(tmp_path / "token") == 0o600
    assert "has mode 0600 now" in done.stderr
    assert id_of((tmp_path / "token").read_text().strip())


@pytest.mark.root
def test_a_file_that_cannot_be_closed_to_others_gets_none(
    served: LedgerProcess, tmp_path: Path
) -> None:
    """Neither does the ledger hear of it."""
    path = tmp_path / "token"
    path.touch(mode=0o644)
    os.chown(path, 12345, 12345)
    drop = "import os, sys; os.setuid(0); os.execv(sys.argv[1], sys.argv[1:])"
    with path.open("w") as out:
        done = subprocess.run(
            [
                "setpriv",
                "--bounding-set=-fowner",
                sys.executable,
                "-c",
                drop,
                INSTALLED,
                "agent",
                "add",
                "ci",
            ],
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2, done.stderr
    assert path.read_text() == ""
    assert served.ask("GET", "/v1/agents").json == {"agents": []}


def test_list_whoami_and_revoke_in_words(served: LedgerProcess, installed: Any) -> None:
    assert "only this ledger's own user and root" in installed("agent", "list").out
    installed("agent", "add", "eye", "--role", "observer", "--user", "65534")
    installed("agent", "add", "op", "--role", "operator")
    installed("agent", "add", "slow", "--priority", "background")
    installed("agent", "rotate", "slow", "--grace", "2h")
    gone = installed("agent", "revoke", "op")
    assert re.fullmatch(r"op is revoked, by \S+\n", gone.out)
    rows = [line.split() for line in installed("agent", "list").out.splitlines()]
    assert rows[0][:5] == ["AGENT", "ROLE", "PRIORITY", "USER", "SESSIONS"]
    assert [row[:5] for row in rows[1:]] == [
        ["eye", "observer", "normal", "65534", "0"],
        ["op", "operator", "human", "-", "0"],
        ["slow", "agent", "background", "-", "0"],
    ]
    assert "revoked" in rows[2]
    assert "former" in rows[3]
    assert installed("agent", "revoke", "nobody").code == 2
    me = json.loads(installed("agent", "whoami", "--json").out)
    assert (me["role"], me["identity"]) == ("operator", "")
    assert "the local user, whose ledger it is" in installed("agent", "whoami").out


def test_what_it_may_is_set(served: LedgerProcess, installed: Any) -> None:
    installed("agent", "add", "ci")
    done = installed("agent", "set", "ci", "--priority", "urgent", "--user", "65534")
    assert done.out.splitlines()[1].split()[:4] == ["ci", "agent", "urgent", "65534"]
    said = json.loads(
        installed("agent", "set", "ci", "--user", "none", "--role", "observer", "--json").out
    )
    assert (said["role"], said["priority"], said["uid"]) == ("observer", 20, None)
    assert installed("agent", "set", "ci").code == 2
    assert "is observer, priority urgent at most" in installed("log").out


def test_with_a_token_one_is_who_it_says(
    served: LedgerProcess, installed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the ledger's own user: so that an agent that runs as it need not be an operator."""
    installed("agent", "add", "ci", "--token-file", "t")
    monkeypatch.setenv("LEASEFS_TOKEN_FILE", str(tmp_path / "t"))
    me = json.loads(installed("agent", "whoami", "--json").out)
    assert (me["name"], me["role"], me["identity"]) == ("ci", "agent", "ci")
    denied = installed("agent", "add", "two")
    assert denied.code == 9
    assert "ci is an agent, and this needs the role operator" in denied.err
    monkeypatch.delenv("LEASEFS_TOKEN_FILE")
    assert installed("agent", "revoke", "ci").code == 0
    monkeypatch.setenv("LEASEFS_TOKEN_FILE", str(tmp_path / "t"))
    over = installed("agent", "whoami")
    assert over.code == 9
    assert "the identity ci was revoked by" in over.err


def test_in_a_mount_its_ledger_is_asked_directly(here: Any, tree: Path, ledger: FakeLedger) -> None:
    ledger.answers["POST /v1/agents/ci/revoke"] = {"agent": "ci", "revoked_by": "ann (ada)"}
    assert here("agent", "revoke", "ci").code == 0
    (call,) = ledger.sent("POST", "/v1/agents/ci/revoke")
    assert call.body == {"by": "ada"}


def test_a_token_file_on_a_full_disk_is_told_as_that() -> None:
    with pytest.raises(InvalidRequest, match=r"x\.token cannot be written: No space left"):
        token_out._write(os.open("/dev/full", os.O_WRONLY), "token\n", "x.token")
