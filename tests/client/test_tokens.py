"""Where a client's token is found, whose file is believed, and what is shown to whom."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from leasefs.client import api
from leasefs.client.address import parse_url
from leasefs.client.ids import Credentials
from leasefs.client.paths import ledger_socket
from leasefs.client.proof import Proof
from leasefs.client.tokens import TokenSource, token_file
from leasefs.core.errors import Denied, InvalidRequest, LeasefsError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from leasefs.client.address import Address

TOKEN = "leasefs_0123456789ab_" + "5" * 64
OTHER = "leasefs_0123456789ab_" + "6" * 64
REMOTE = parse_url("https://ledger.example:8470")
LOCAL = parse_url("unix:/run/leasefs/ledger.sock")
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("LEASEFS_TOKEN_FILE", "LEASEFS_TOKEN", "CREDENTIALS_DIRECTORY"):
        monkeypatch.delenv(variable, raising=False)
    for name in ("CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.setenv("LEASEFS_CONFIG_SYSTEM", "")
    return tmp_path


def written(path: Path, token: str = TOKEN, mode: int = 0o600) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(token + "\n")
    path.chmod(mode)
    return path


def in_tokens(home: Path, name: str) -> Path:
    return written(home / "config" / "leasefs" / "tokens" / name)


def test_the_order(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert token_file(REMOTE) is None
    assert TokenSource(REMOTE).current() == ""
    places = [
        in_tokens(home, "ledger.example"),
        in_tokens(home, "ledger.example:8470"),
        written(home / "credentials" / "leasefs-token"),
        written(home / "named"),
    ]
    monkeypatch.setenv("LEASEFS_TOKEN_FILE", str(places[3]))
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(home / "credentials"))
    assert token_file(REMOTE) == str(places[3])
    monkeypatch.delenv("LEASEFS_TOKEN_FILE")
    for place in reversed(places[:3]):
        assert token_file(REMOTE) == str(place)
        assert TokenSource(REMOTE).current() == TOKEN
        place.unlink()
    assert token_file(REMOTE) is None


def test_each_ledger_has_its_own(home: Path) -> None:
    mine = in_tokens(home, "run-leasefs-ledger.sock")
    assert token_file(LOCAL) == str(mine)
    assert token_file(REMOTE) is None
    in_tokens(home, "ledger.example:8470")
    assert token_file(parse_url("https://ledger.example:8471")) is None
    assert token_file(parse_url("https://example:8470")) is None


def test_the_own_ledger_gets_none(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEFS_TOKEN_FILE", str(written(home / "t")))
    assert TokenSource(parse_url(f"unix:{ledger_socket()}")).current() == ""
    assert TokenSource(LOCAL).current() == TOKEN


def test_a_token_in_the_environment_is_refused_and_not_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LEASEFS_TOKEN", TOKEN)
    for address in (REMOTE, LOCAL):
        with pytest.raises(
            InvalidRequest, match="put the token into a file of mode 0600"
        ) as caught:
            TokenSource(address).current()
        assert TOKEN not in repr(caught.value) + repr(caught.value.details)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o666, 0o610])
def test_a_file_open_to_others_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    path = written(home / "t", mode=mode)
    monkeypatch.setenv("LEASEFS_TOKEN_FILE", str(path))
    with pytest.raises(
        Denied, match=rf"open to others \(mode {mode:04o}\); chmod [46]00 "
    ) as caught:
        TokenSource(REMOTE).current()
    assert TOKEN not in repr(caught.value.message)


@root_only
def test_somebody_elses_file_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(home / "t")
    os.chown(path, 65534, 65534)
    monkeypatch.setenv("LEASEFS_TOKEN_FILE", str(path))
    with pytest.raises(Denied, match=r"belongs to another user \(uid 65534\)"):
        TokenSource(REMOTE).current()


@root_only
def test_a_credential_of_systemd_may_show_its_access_list_as_the_groups_mode(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(home / "credentials" / "leasefs-token", mode=0o440)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(path.parent))
    assert TokenSource(REMOTE).current() == TOKEN
    path.chmod(0o444)
    with pytest.raises(Denied, match="mode 0444"):
        TokenSource(REMOTE).current()
    elsewhere = written(home / "t", mode=0o440)
    monkeypatch.setenv("LEASEFS_TOKEN_FILE", str(elsewhere))
    with pytest.raises(Denied, match="mode 0440"):
        TokenSource(REMOTE).current()


def _fifo(path: Path) -> None:
    os.mkfifo(path, 0o600)


def _directory(path: Path) -> None:
    path.mkdir(mode=0o700)


def _empty(path: Path) -> None:
    written(path, "")


def _not_a_token(path: Path) -> None:
    written(path, "hunter2")


def _two(path: Path) -> None:
    written(path, f"{TOKEN}\n{OTHER}")


def _binary(path: Path) -> None:
    written(path).write_bytes(b"\xff" * 30)


def _endless(path: Path) -> None:
    written(path, "leasefs_" * 20_000)


def _missing(path: Path) -> None:
    pass


def _dangling(path: Path) -> None:
    path.symlink_to("nowhere")


@pytest.mark.parametrize(
    "make",
    [_fifo, _directory, _empty, _not_a_token, _two, _binary, _endless, _missing, _dangling],
    ids=lambda make: make.__name__,
)
def test_what_is_no_token_file(
    home: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None]
) -> None:
    path = home / "t"
    make(path)
    monkeypatch.setenv("LEASEFS_TOKEN_FILE", str(path))
    with pytest.raises(LeasefsError, match=f"token file {path} ") as caught:
        TokenSource(REMOTE).current()
    assert "hunter2" not in str(caught.value)
    assert TOKEN not in str(caught.value)


def test_a_link_to_a_private_file_will_do(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "t").symlink_to(written(home / "secrets" / "current"))
    monkeypatch.setenv("LEASEFS_TOKEN_FILE", str(home / "t"))
    assert TokenSource(REMOTE).current() == TOKEN


def test_a_relative_path_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEFS_TOKEN_FILE", "t")
    with pytest.raises(InvalidRequest, match="must be an absolute path"):
        TokenSource(REMOTE).current()


# -- what is shown --------------------------------------------------------------------------------

SESSION = Credentials("S1", "secret")
READ = api.leases()
BEAT = api.heartbeat("S1")
OPENING = api.open_session(
    session="S1",
    secret="secret",
    agent="a",
    harness="h",
    territory="t",
    kind="shell",
    host="h",
    pid=1,
    process="",
)


def proof(address: Address | None, credentials: Credentials | None = SESSION) -> Proof:
    return Proof(credentials, None if address is None else TokenSource(address))


def test_a_session_is_shown_where_it_is_needed_and_the_token_elsewhere(home: Path) -> None:
    in_tokens(home, "ledger.example")
    in_tokens(home, "run-leasefs-ledger.sock")
    for address in (REMOTE, LOCAL):
        one = proof(address)
        assert one.header(BEAT) == "Leasefs S1:secret"
        assert one.header(READ) == f"Bearer {TOKEN}"
        assert one.header(OPENING) == f"Bearer {TOKEN}"
        assert proof(address, None).header(BEAT) is None


def test_without_a_token_the_kernel_vouches_on_a_socket_and_the_session_over_tcp() -> None:
    assert proof(LOCAL).header(READ) is None
    assert proof(REMOTE).header(READ) == "Leasefs S1:secret"
    assert proof(REMOTE).header(OPENING) is None
    assert proof(REMOTE, None).header(READ) is None


def test_a_control_socket_is_shown_no_token(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEFS_TOKEN_FILE", str(written(home / "t")))
    assert proof(None).header(READ) is None
    assert not proof(None).refused(READ)


def test_a_refused_token_is_read_again(home: Path) -> None:
    path = in_tokens(home, "ledger.example")
    one = proof(REMOTE)
    assert one.header(READ) == f"Bearer {TOKEN}"
    written(path, OTHER)
    assert one.header(READ) == f"Bearer {TOKEN}"
    assert one.refused(READ)
    assert one.header(READ) == f"Bearer {OTHER}"
    assert not one.refused(BEAT)


def test_with_no_other_token_the_session_asks_for_what_it_may(home: Path) -> None:
    path = in_tokens(home, "ledger.example")
    one = proof(REMOTE)
    assert one.header(READ) == f"Bearer {TOKEN}"
    assert one.refused(READ)
    assert one.header(READ) == "Leasefs S1:secret"
    assert not one.refused(READ)
    assert one.header(OPENING) == f"Bearer {TOKEN}"
    assert not one.refused(OPENING)
    written(path, OTHER)
    assert one.refused(OPENING)
    assert one.header(READ) == f"Bearer {OTHER}"


def test_who_has_no_session_is_refused_for_good(home: Path) -> None:
    in_tokens(home, "ledger.example")
    one = proof(REMOTE, None)
    assert one.header(READ) == f"Bearer {TOKEN}"
    assert not one.refused(READ)
