"""Commands of another host: over TLS, known by a token, and no trace of it anywhere."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leasefs.client.ids import Credentials
from leasefs.client.shell_session import ShellSession
from leasefs.testing.certificates import Authority
from leasefs.testing.ledger_process import LedgerProcess, free_port, tls_options
from leasefs_cli import committing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.slow


class Fleet:
    """A ledger by TLS, a repository, and laptops that have a token each."""

    def __init__(self, root: Path, installed: Callable[..., Any]) -> None:
        self.root = root
        self._installed = installed
        os.chmod(root, 0o700)
        self.authority = Authority(str(root))
        self.leaf, self.port = self.authority.leaf(), free_port()
        self.ledger = self.started()
        self.repo = root / "repo"
        self.repo.mkdir()
        subprocess.run(["git", "init", "-q", self.repo], check=True)
        origin = ["remote", "add", "origin", "https://example.org/o/r.git"]
        subprocess.run(["git", "-C", self.repo, *origin], check=True)
        self.tokens: dict[str, str] = {}

    def started(self) -> LedgerProcess:
        return LedgerProcess(str(self.root), *tls_options(self.leaf, self.port))

    def home(self, name: str) -> Path:
        return self.root / "homes" / name

    def issue(self, name: str, role: str = "agent") -> None:
        token = self.tokens[name] = self.ledger.add_agent(name, role)
        place = self.home(name) / "config" / "leasefs" / "tokens"
        place.mkdir(parents=True, exist_ok=True)
        path = place / f"127.0.0.1:{self.port}"
        path.write_text(token)
        path.chmod(0o600)

    def run(self, name: str, *arguments: str, code: int | None = 0, **variables: str) -> Any:
        """A command at the laptop of this identity."""
        home = self.home(name)
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        environment = {
            **os.environ,
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_RUNTIME_DIR": str(home / "run"),
            "LEASEFS_LEDGER": f"https://127.0.0.1:{self.port}",
            "LEASEFS_CA_FILE": self.authority.file,
            **variables,
        }
        done = self._installed(*arguments, cwd=self.repo, env=environment)
        assert code is None or done.code == code, (done.out, done.err)
        assert "Traceback" not in done.err
        return done


@pytest.fixture
def fleet(tmp_path: Path, installed: Callable[..., Any]) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path, installed)
    yield fleet
    if fleet.ledger.process.poll() is None:
        fleet.ledger.kill()
    assert fleet.ledger.process.stderr is not None
    fleet.ledger.process.stderr.close()


def test_two_laptops_and_an_operator(fleet: Fleet) -> None:
    for name, role in (
        ("ann", "agent"),
        ("bob", "agent"),
        ("ola", "operator"),
        ("eve", "observer"),
    ):
        fleet.issue(name, role)
    lease = fleet.run("ann", "claim", "src/**").out.strip()
    assert lease.startswith("L")
    refused = fleet.run("bob", "claim", "src/x", code=3)
    assert "ann" in refused.err
    seen = json.loads(fleet.run("eve", "leases", "--json").out)
    assert [one["agent"] for one in seen["leases"]] == ["ann"]
    # Names are the identities' own; nobody takes another's, and not everybody may decide for others.
    assert fleet.run("bob", "claim", "x", "--agent", "ann", code=9)
    assert fleet.run("eve", "claim", "x", code=9)
    assert fleet.run("bob", "release", lease, "--agent", "ann", code=5)
    assert fleet.run("bob", "agent", "add", "bobs-friend", code=9)
    assert json.loads(fleet.run("ola", "agent", "list", "--json").out)
    # The ledger comes back, and everybody goes on.
    assert fleet.ledger.stop() == 0
    assert fleet.run("ann", "leases", code=7)
    said = _said(fleet.ledger)
    fleet.ledger = fleet.started()
    assert lease in fleet.run("ann", "leases").out
    fleet.run("ann", "release", lease)
    held = fleet.run("bob", "claim", "src/x").out.strip()
    assert fleet.run("eve", "release", "--force", held, code=9)
    fleet.run("ola", "release", "--force", held)
    history = fleet.ledger.ask("GET", "/v1/events?types=revoked").json["events"]
    assert [event["event"]["by"] for event in history] == ["ola"]
    said += json.dumps(fleet.ledger.ask("GET", "/v1/events?limit=1000").json)
    assert fleet.ledger.stop() == 0
    said += _said(fleet.ledger) + _everything_below(fleet)
    for token in fleet.tokens.values():
        assert token not in said
        assert token.rpartition("_")[2] not in said


def _said(ledger: LedgerProcess) -> str:
    assert ledger.process.stderr is not None
    with ledger.process.stderr as file:
        return file.read().decode()


def _everything_below(fleet: Fleet) -> str:
    """Of all that was written: sessions, logs, the store. Not the files of tokens themselves."""
    files = [path for path in Path(fleet.root).rglob("*") if path.is_file()]
    assert any("sessions" in path.parts for path in files)
    return "".join(
        path.read_bytes().decode("latin-1") for path in files if "tokens" not in path.parts
    )


def test_what_keeps_a_laptop_out_is_said_in_a_line(fleet: Fleet) -> None:
    fleet.issue("ann")
    no_token = fleet.run("new", "leases", code=9)
    assert f"tokens/127.0.0.1:{fleet.port}, mode 0600" in no_token.err
    stranger = fleet.run("ann", "leases", code=7, LEASEFS_CA_FILE="")
    assert "name its file in LEASEFS_CA_FILE" in stranger.err
    clear = fleet.run("ann", "leases", code=2, LEASEFS_LEDGER=f"http://127.0.0.1:{fleet.port}")
    assert "secrets would travel in clear" in clear.err
    token = fleet.run("ann", "leases", code=2, LEASEFS_TOKEN=fleet.tokens["ann"])
    assert "unset it" in token.err
    assert fleet.tokens["ann"] not in token.err
    path = fleet.home("ann") / "config" / "leasefs" / "tokens" / f"127.0.0.1:{fleet.port}"
    path.chmod(0o640)
    assert "mode 0640" in fleet.run("ann", "leases", code=9).err
    path.chmod(0o600)
    fleet.ledger.ask("POST", "/v1/agents/ann/revoke", {})
    assert "revoked" in fleet.run("ann", "claim", "x", code=9).err
    for done in (no_token, stranger, clear, token):
        assert done.err.count("\n") == 1


@pytest.mark.parametrize("spelling", ["https://Host", "https://host:443", "https://host:443/"])
def test_a_session_is_found_however_its_ledger_was_written(
    spelling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = ShellSession(Credentials("S1", "x"), "ann", "t", "https://host:443")
    monkeypatch.setattr("leasefs.client.shell_session.stored_sessions", lambda: [session])
    monkeypatch.setenv("LEASEFS_LEDGER", spelling)
    assert committing._only_session("t") == "ann"
    monkeypatch.setenv("LEASEFS_LEDGER", "https://host:444")
    assert committing._only_session("t") == ""


def _certificates(fleet: Fleet, **variables: str) -> dict[str, list[str]]:
    """What doctor says of certificates, level by level; it looks at the whole machine, other tests' mounts included."""
    found: dict[str, list[str]] = {}
    said = json.loads(fleet.run("ann", "doctor", "--json", code=None, **variables).out)
    for one in said["findings"]:
        if one["check"] == "certificate":
            found.setdefault(one["level"], []).append(one["found"])
    return found


def test_doctor_tells_when_a_certificate_ends(fleet: Fleet) -> None:
    fleet.issue("ann", "observer")
    address = f"https://127.0.0.1:{fleet.port}"
    assert list(_certificates(fleet)) == ["ok"]
    # What the ledger shows counts, and each file that is configured here.
    mine = fleet.authority.leaf("ann", label="ann", days=3)
    shown = {"LEASEFS_CLIENT_CERT_FILE": mine.certificate, "LEASEFS_CLIENT_KEY_FILE": mine.key}
    (warned,) = _certificates(fleet, **shown)["warn"]
    assert mine.certificate in warned
    fleet.leaf = fleet.authority.leaf(days=13)
    assert list(_certificates(fleet)) == ["ok"]  # not read again yet
    served = {"LEASEFS_LEDGER_TLS_CERT": fleet.leaf.certificate}
    (warned,) = _certificates(fleet, **served)["warn"]
    assert fleet.leaf.certificate in warned
    assert "expires on" in warned
    assert fleet.ledger.stop() == 0
    assert "expires on" not in _said(fleet.ledger)
    fleet.ledger = fleet.started()
    (warned,) = _certificates(fleet)["warn"]
    assert address in warned
    gone = fleet.authority.leaf("ann", label="gone", days=-1)
    served = {"LEASEFS_LEDGER_TLS_CERT": gone.certificate}
    (failed,) = _certificates(fleet, **served)["fail"]
    assert "has expired on" in failed
