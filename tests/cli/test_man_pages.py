"""The pages and completion files that are shipped: up to date, whole, and free of complaints."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from leasefs import __version__
from leasefs_cli import exit_codes
from leasefs_cli.lazy_group import LazyGroup
from leasefs_cli.root import root

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
SHARE = ROOT / "share"
PAGES = SHARE / "man" / "man1"


def _commands(group: LazyGroup, words: tuple[str, ...]) -> Iterator[tuple[str, click.Command]]:
    yield "-".join(words), group
    for name in group.listed:
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if isinstance(command, LazyGroup):
            yield from _commands(command, (*words, name))
        else:
            yield "-".join((*words, name)), command


COMMANDS = dict(_commands(root, ("leasefs",)))


def _bare(source: str) -> str:
    """What a reader sees of a page, roughly: no comments, fonts and escapes."""
    text = re.sub(r'^\.\\".*\n', "", source, flags=re.MULTILINE)
    text = re.sub(r"\\f[BIR]|\\&", "", text)
    for escape, char in ((r"\-", "-"), (r"\(aq", "'"), (r"\(ga", "`"), (r"\(ti", "~")):
        text = text.replace(escape, char)
    return text.replace(r"\(ha", "^").replace(r"\e", "\\")


def _section(text: str, title: str) -> str:
    found = re.search(rf"^\.SH {title}\n(.*?)(?=^\.SH |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, title
    return found[1]


def _written(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): path.read_text()
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_what_is_committed_is_what_the_help_says(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "scripts" / "man", tmp_path], check=True, timeout=60)
    made, committed = _written(tmp_path), _written(SHARE)
    stale = {path for path in made | committed if made.get(path) != committed.get(path)}
    assert not stale, "run scripts/man and commit share/"


def test_each_command_has_its_page_and_no_other_has_one() -> None:
    assert {path.stem for path in PAGES.iterdir()} == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_has_every_option_example_and_exit_code(name: str) -> None:
    command = COMMANDS[name]
    text = _bare((PAGES / f"{name}.1").read_text())
    assert text.startswith(f'.TH {name.upper()} 1 "" "leasefs {__version__}" ')
    options = set(re.findall(r"(?<![\w-])--?\w[\w-]*", _section(text, "OPTIONS")))
    params = command.get_params(click.Context(root, **root.context_settings))
    for param in params:
        if isinstance(param, click.Option) and not param.hidden:
            assert {*param.opts, *param.secondary_opts} <= options
            assert param.help or "--help" in param.opts or "--version" in param.opts
    flowing = " ".join(text.split())
    for word in (command.help or "").replace("\b", "").replace("`", "").split():
        assert word in flowing
    for line, _ in getattr(command, "examples", ()):
        assert f"\n{line}\n" in _section(text, "EXAMPLES")
    for number, meaning in exit_codes.MEANINGS.items():
        assert f"\n{number}\n{meaning}\n" in _section(text, "EXIT STATUS").replace("\n ", " ") or (
            meaning in " ".join(_section(text, "EXIT STATUS").split())
        )
    assert "leasefs(1)" in text or name == "leasefs"


def test_every_variable_that_the_help_names_is_explained() -> None:
    texts = [command.help or "" for command in COMMANDS.values()]
    texts += [
        param.help or ""
        for command in COMMANDS.values()
        for param in command.params
        if isinstance(param, click.Option)
    ]
    named = set(re.findall(r"LEASEFS_[A-Z_]*[A-Z]", " ".join(texts)))
    assert "LEASEFS_LEDGER" in named
    listed = _section(_bare((PAGES / "leasefs.1").read_text()), "ENVIRONMENT")
    assert named <= set(re.findall(r"^(\w+)$", listed, re.MULTILINE))


def test_every_page_that_another_one_names_is_there() -> None:
    for page in PAGES.iterdir():
        named = set(re.findall(r"(leasefs[a-z-]*)\(1\)", _bare(page.read_text())))
        assert named
        assert named <= set(COMMANDS), page.name


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_has_nothing_to_complain_of() -> None:
    pages = sorted(map(str, PAGES.iterdir()))
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-rLL=78n", *pages],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "LEASEFS-CLAIM(1)" in done.stdout


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="mandoc is not installed")
def test_mandoc_has_no_warning() -> None:
    pages = sorted(map(str, PAGES.iterdir()))
    done = subprocess.run(
        ["mandoc", "-T", "lint", "-W", "warning", *pages],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    # They have none, or they would differ with the day that they are made on.
    complaints = [line for line in done.stdout.splitlines() if "missing date" not in line]
    assert complaints == []


@pytest.mark.parametrize(
    ("shell", "file"),
    [
        ("bash", "bash-completion/completions/leasefs"),
        ("zsh", "zsh/site-functions/_leasefs"),
        ("fish", "fish/vendor_completions.d/leasefs.fish"),
    ],
)
def test_the_completion_files_can_be_read_by_their_shell(shell: str, file: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    subprocess.run([shell, "-n", SHARE / file], check=True, timeout=20)
