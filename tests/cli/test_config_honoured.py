"""Every setting is heeded by somebody: one that nobody reads would be a promise that is not kept.

`HONOURED` says for each setting what a file says, what is seen then, and where it is seen: by what a command asks of the ledger,
by what a daemon is started with, or by the very function that the daemon asks.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from leasefs.client import config, embedded, names, paths
from leasefs.client.address import parse_url
from leasefs.client.blocking import Link
from leasefs.client.config_files import user_path
from leasefs.client.understand import Roots
from leasefs.core.setting import PROJECT
from leasefs.core.settings import LIMITS, SETTINGS
from leasefs.mount.daemon import _look_at
from leasefs.mount.mountpoint import MountOptions
from leasefs.mount.unleased_policy import settings_of
from leasefs_cli.commands import hooks_run, mount
from leasefs_cli.committing import Committer, Verdict
from leasefs_cli.release_checks import _project_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasefs.mount.launch import MountConfig
    from leasefs.service.server import Options
    from leasefs.testing.fake_ledger import FakeLedger


class Trial:
    """Ways to see what a setting does."""

    def __init__(
        self, here: Any, ledger: FakeLedger, tree: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.here = here
        self.ledger = ledger
        self.tree = tree
        self.patch = monkeypatch

    def claim(self, key: str, *arguments: str) -> object:
        """What `leasefs claim` asks of the ledger."""
        self.ledger.calls.clear()
        assert self.here("claim", "src/x.py", *arguments).code == 0
        return self.ledger.claimed()[key]

    def mounted(self, field: str) -> object:
        """What `leasefs mount` starts a daemon with."""
        asked: list[MountConfig] = []

        def start(wanted: MountConfig) -> dict[str, Any]:
            asked.append(wanted)
            return {"mountpoint": "/m", "source": "/m", "agent": "a", "harness": "h"}

        self.patch.setattr(mount, "start_mount", start)
        ran = self.here("mount", str(self.tree))
        assert ran.code == 0, ran.err
        return asked[0]._asdict()[field]

    def daemon(self) -> Any:
        """What a mount's daemon reads before it mounts."""
        return _look_at(MountOptions(str(self.tree), str(self.tree), "a"))

    def unleased(self) -> Any:
        """How a mount treats writes that no lease covers."""
        return settings_of("", None, self.daemon().project)

    def release(self) -> Any:
        """What `leasefs release` goes by."""
        return _project_of(str(self.tree))

    def served(self) -> Options:
        """What `leasefs ledger serve` serves with."""
        asked: list[Options] = []
        self.patch.setattr(
            "leasefs.service.server.serve", lambda options, ready: asked.append(options)
        )
        ran = self.here("ledger", "serve")
        assert ran.code == 0, ran.err
        return asked[0]

    def logged(self) -> tuple[str, str]:
        """Level and format with which it logs."""
        asked: list[tuple[str, str]] = []
        self.patch.setattr(
            "leasefs.client.log_setup.log_as",
            lambda _name, _about=None, *, level="", how="": asked.append((level, how)),
        )
        self.served()
        return asked[0]

    def started(self) -> list[str]:
        """The command that starts a ledger of one's own."""
        asked: list[list[str]] = []

        def start(command: list[str], *_: object) -> bool:
            asked.append(command)
            return True

        self.patch.setattr(embedded, "_start", start)
        embedded.ensure_ledger()
        return asked[0]

    def message(self) -> str:
        """What the hook of a commit message makes of one."""
        file = self.tree.parent / "message"
        file.write_text("what\n")
        who = Committer("a", "T", Roots(str(self.tree)), Link("unix:/nowhere"))
        hooks_run._add_trailers(who, Verdict(leases=("L7",)), (str(file),))
        return file.read_text()

    def tls(self) -> str:
        """What becomes of a connection by TLS: the file that is used first."""
        from leasefs.client.tls import client_context
        from leasefs.core.errors import LeasefsError

        try:
            client_context()
        except LeasefsError as error:
            return error.message
        return "no file"


class Honoured(NamedTuple):
    """A file says `value`; `see` then gives `seen`, or for a callable what it finds fit. `with_` is said beside it."""

    value: str
    seen: Any
    see: Callable[[Trial], Any]
    with_: str = ""


def _option(name: str) -> Callable[[Trial], Any]:
    return lambda trial: getattr(trial.served(), name)


def _tcp(name: str) -> Callable[[Trial], Any]:
    return lambda trial: getattr(trial.served().tcp, name)


def _token_file(_: Trial) -> str | None:
    from leasefs.client.tokens import token_file

    return token_file(parse_url("https://ledger.example"))


HONOURED: dict[str, Honoured] = {
    "ledger.url": Honoured('"unix:/x.sock"', "unix:/x.sock", lambda _: paths.ledger_url()[0]),
    "ledger.idle_s": Honoured(
        "300", "300", lambda t: t.started()[t.started().index("--idle-s") + 1]
    ),
    "ledger.keep_events": Honoured("5000", 5000, lambda t: t.served().keep.events),
    "ledger.keep_s": Honoured("7200", 7200.0, lambda t: t.served().keep.age_s),
    "ledger.keep_bytes": Honoured("10485760", 10485760, lambda t: t.served().keep.size_bytes),
    "ledger.archive": Honoured('"/archive"', "/archive", _option("archive")),
    "ledger.token_file": Honoured('"/token"', "/token", _token_file),
    "ledger.ca_file": Honoured('"/no/ca"', lambda said: "/no/ca" in said, Trial.tls),
    "ledger.client_cert_file": Honoured('"/no/cert"', lambda said: "/no/cert" in said, Trial.tls),
    "ledger.client_key_file": Honoured(
        '"/no/key"',
        lambda said: "/no/key" in said,
        Trial.tls,
        'ledger.client_cert_file = "/no/cert"',
    ),
    "ledger.listen": Honoured('["127.0.0.1:8470"]', ("127.0.0.1:8470",), _tcp("listen")),
    "ledger.tls_cert": Honoured('"/cert"', "/cert", _tcp("certificate")),
    "ledger.tls_key": Honoured('"/key"', "/key", _tcp("key")),
    "ledger.tls_client_ca": Honoured('"/ca"', "/ca", _tcp("client_ca")),
    **{
        f"limits.{name}": Honoured("7", 7, lambda t, name=name: getattr(t.served().limits, name))  # type: ignore[misc]
        for name in LIMITS
    },
    "log.level": Honoured('"debug"', "debug", lambda t: t.logged()[0]),
    "log.format": Honoured('"json"', "json", lambda t: t.logged()[1]),
    "agent.name": Honoured('"ada"', "ada", lambda _: names.agent_name()),
    "agent.harness": Honoured('"codex"', "codex", lambda _: names.harness_name()),
    "claim.ttl_s": Honoured("60", 60.0, lambda t: t.claim("ttl_s")),
    "claim.wait_s": Honoured("inf", True, lambda t: t.claim("wait")),
    "claim.priority": Honoured('"background"', -20, lambda t: t.claim("priority")),
    "mount.allow_other": Honoured("true", True, lambda t: t.mounted("allow_other")),
    "mount.fsmonitor": Honoured("false", False, lambda t: t.mounted("fsmonitor")),
    "mount.redirects": Honoured("false", False, lambda t: t.mounted("redirects")),
    "mount.cpu_latency": Honoured('"low"', "low", lambda t: t.mounted("cpu_latency")),
    "mount.keep_leases": Honoured("true", True, lambda t: t.mounted("keep_leases")),
    "mount.on_recall": Honoured('"git stash"', "git stash", lambda t: t.mounted("on_recall")),
    "unleased.policy": Honoured('"wait"', "wait", lambda t: t.unleased().policy.word),
    "unleased.wait_s": Honoured("5", 5.0, lambda t: t.unleased().wait_s),
    "unleased.idle_s": Honoured("7", 7.0, lambda t: t.unleased().idle_s),
    "unleased.ttl_s": Honoured("11", 11.0, lambda t: t.unleased().ttl_s),
    "unleased.uncommitted": Honoured('"lapse"', False, lambda t: t.unleased().keeps),
    "unleased.regions": Honoured('["docs/"]', ("docs/",), lambda t: t.unleased().regions.texts),
    "territory": Honoured('"fleet/one"', "fleet/one", lambda t: t.daemon().territory),
    "upstream": Honoured('"origin/trunk"', "origin/trunk", lambda t: t.daemon().project.upstream),
    "release.require": Honoured(
        '"pushed"', "pushed", lambda t: t.release() and t.release().require
    ),
    "release.checks": Honoured(
        '["make"]', "make", lambda t: t.release() and t.release().checks[0].shown
    ),
    "release.check_timeout_s": Honoured(
        "9", 9.0, lambda t: t.release() and t.release().check_timeout_s
    ),
    "hooks.trailer": Honoured("true", lambda said: "Lease: L7" in said, Trial.message),
}


@pytest.fixture
def trial(here: Any, ledger: FakeLedger, tree: Path, monkeypatch: pytest.MonkeyPatch) -> Trial:
    monkeypatch.setenv("LOGNAME", "somebody")
    return Trial(here, ledger, tree, monkeypatch)


def _says(trial: Trial, name: str, one: Honoured) -> None:
    """Whoever may say it does: the repository where it is its own, else the user."""
    path = trial.tree / ".leasefs.toml" if SETTINGS[name].files == PROJECT else Path(user_path())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{name} = {one.value}\n{one.with_}\n")
    path.chmod(0o600)
    config.start_afresh()


def _is_seen(one: Honoured, seen: object) -> bool:
    return bool(one.seen(seen)) if callable(one.seen) else seen == one.seen


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_is_heeded(trial: Trial, name: str) -> None:
    assert name in HONOURED, "say here how it is seen that somebody reads it"
    one = HONOURED[name]
    config.start_afresh()
    assert not _is_seen(one, one.see(trial))
    _says(trial, name, one)
    assert _is_seen(one, one.see(trial))


def test_each_of_these_is_a_setting() -> None:
    assert set(HONOURED) == set(SETTINGS)


@pytest.mark.parametrize(
    ("name", "arguments", "key", "value"),
    [
        ("claim.ttl_s", ("--ttl", "5m"), "ttl_s", 300.0),
        ("claim.wait_s", ("--wait", "0s"), "wait", False),
        ("claim.priority", ("--priority", "normal"), "priority", 0),
    ],
)
def test_an_option_goes_before_what_is_configured(
    trial: Trial, name: str, arguments: tuple[str, ...], key: str, value: object
) -> None:
    _says(trial, name, HONOURED[name])
    assert trial.claim(key, *arguments) == value


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("mount.allow_other", "--no-allow-other", False),
        ("mount.fsmonitor", "--fsmonitor", True),
        ("mount.redirects", "--redirects", True),
        ("mount.cpu_latency", "--cpu-latency=any", "any"),
        ("mount.keep_leases", "--no-keep-leases", False),
        ("mount.on_recall", "--on-recall=", ""),
    ],
)
def test_a_mounts_option_goes_before_what_is_configured(
    trial: Trial, name: str, option: str, value: object
) -> None:
    _says(trial, name, HONOURED[name])
    run = trial.here
    trial.here = lambda *arguments: run(*arguments, option)
    assert trial.mounted(name.partition(".")[2]) == value


def test_a_mount_hands_on_what_it_was_given(trial: Trial) -> None:
    run = trial.here
    trial.here = lambda *arguments: run("-c", "unleased.policy=claim", *arguments)
    handed = trial.mounted("settings")
    assert isinstance(handed, dict)
    config.start_afresh()
    assert trial.unleased().policy.word == "deny"
    config.give_all(handed)
    assert trial.unleased().policy.word == "claim"


def test_what_looks_into_no_file_imports_no_reader_of_files(trial: Trial) -> None:
    """Two files that are not there cost two system calls."""
    import subprocess

    code = (
        "from leasefs.client import config; import sys; config.text('ledger.url'); "
        "print('tomllib' in sys.modules, 'leasefs.core.settings_file' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout == "False False\n"
