"""`--help` teaches: every page has a synopsis, what it does, examples and the exit codes."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

from leasefs_cli import exit_codes
from leasefs_cli.lazy_group import LazyGroup
from leasefs_cli.root import root
from leasefs_cli.teaching import TeachingCommand

if TYPE_CHECKING:
    from collections.abc import Iterator

INSTALLED = Path(sys.executable).parent / "leasefs"


def _pages(group: LazyGroup, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if isinstance(command, LazyGroup):
            yield from _pages(command, (*path, name))
        else:
            yield (*path, name)


PAGES = list(_pages(root))


def _command(path: tuple[str, ...]) -> click.Command:
    command: click.Command = root
    for name in path:
        assert isinstance(command, LazyGroup)
        command = _command_of(command, name)
    return command


def _called(words: list[str]) -> click.Command:
    """The command that a command line calls, through its groups."""
    command: click.Command = root
    for word in words:
        if not isinstance(command, LazyGroup) or word not in command.listed:
            break
        command = _command_of(command, word)
    return command


def _command_of(group: LazyGroup, name: str) -> click.Command:
    found = group.get_command(click.Context(group), name)
    assert found is not None
    return found


def test_the_commands_are_these() -> None:
    assert {" ".join(page) for page in PAGES} == {
        "",
        *("mount", "unmount", "claim", "release", "heartbeat", "run", "status", "leases", "queue"),
        *("intents", "who", "why", "log", "doctor", "metrics", "completion"),
        *("ledger", "ledger serve", "ledger status", "ledger stop", "ledger backup"),
        *("ledger restore", "ledger reopen", "ledger verify", "ledger compact"),
        "fresh",
        *("plan", "delegate", "downgrade", "recall", "more-time"),
        *("admission", "admission show", "admission set", "admission clear"),
        *("hold", "freeze", "unfreeze", "freezes"),
        *(
            "agent",
            "agent add",
            "agent set",
            "agent rotate",
            "agent revoke",
            "agent list",
            "agent whoami",
        ),
        *("rescue", "rescue list", "rescue show", "rescue apply", "rescue drop"),
        *("config", "config show", "config get", "config path"),
        *("service", "service install", "service status", "service uninstall"),
        *("hooks", "hooks install", "hooks uninstall", "hooks status", "hooks run"),
    }


@pytest.mark.parametrize("path", PAGES, ids=" ".join)
def test_every_page_teaches(
    here: Any, monkeypatch: pytest.MonkeyPatch, path: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    ran = here(*path, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"Usage: {' '.join(('leasefs', *path))} ")
    assert "\nExamples:\n  # " in ran.out
    for number, meaning in exit_codes.MEANINGS.items():
        assert f"  {number} " in ran.out
        assert meaning.split(":")[0] in ran.out
    assert here(*path, "-h").out == ran.out


@pytest.mark.parametrize("path", PAGES, ids=" ".join)
def test_every_example_is_a_command_line_that_exists(path: tuple[str, ...]) -> None:
    command = _command(path)
    assert isinstance(command, LazyGroup | TeachingCommand)
    assert command.examples
    for line, purpose in command.examples:
        assert purpose
        assert not purpose.endswith(".")
        # What the shell would take away before the command sees it.
        bare = re.sub(r'"?\$\(|\)"?', " ", re.split(r" \| | && | > ", line)[0])
        words = shlex.split(bare)
        at = words.index("leasefs")
        for word in words[at + 1 :]:
            if word.startswith("--") and word != "--":
                target = _called(words[at + 1 :])
                known = {option for param in target.params for option in param.opts}
                assert word.split("=")[0] in known, (line, word)
            if word == "--":
                break


def test_every_command_speaks_json() -> None:
    for path in PAGES:
        command = _command(path)
        if isinstance(command, LazyGroup) or path == ("completion",):
            continue
        assert "--json" in {option for param in command.params for option in param.opts}, path


@pytest.mark.parametrize(
    ("words", "offers"),
    [
        ("leasefs cl", {"claim"}),
        ("leasefs ledger st", {"status", "stop"}),
        ("leasefs claim --no", {"--note"}),
        ("leasefs log --type grant", {"granted"}),
        ("leasefs config get claim.t", {"claim.ttl_s"}),
        ("leasefs -c hooks", {"hooks.trailer="}),
    ],
)
def test_completion_knows_commands_and_options(words: str, offers: set[str]) -> None:
    done = subprocess.run(
        [INSTALLED],
        env={
            **os.environ,
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
            "_LEASEFS_COMPLETE": "bash_complete",
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    assert {line.split(",")[1] for line in done.stdout.splitlines()} == offers


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_is_printed(here: Any, shell: str) -> None:
    ran = here("completion", shell)
    assert ran.code == 0
    assert f"_LEASEFS_COMPLETE={shell}_complete" in ran.out


def test_the_bash_script_works_in_bash(here: Any) -> None:
    script = here("completion", "bash").out
    probe = 'COMP_WORDS=(leasefs rel); COMP_CWORD=1; _leasefs_completion leasefs; echo "${COMPREPLY[@]}"'
    done = subprocess.run(
        ["bash", "-c", f"{script}\n{probe}"],
        env={**os.environ, "PATH": f"{INSTALLED.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    assert done.stdout == "release\n"
