"""Whatever happens, a person sees one line and a script sees a documented number."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
import pytest

from leasefs.core import errors
from leasefs_cli.root import root

if TYPE_CHECKING:
    from collections.abc import Callable

INSTALLED = Path(sys.executable).parent / "leasefs"


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Make `leasefs queue` fail with any exception."""

    def arrange(failure: BaseException) -> None:
        @click.command("queue")
        @click.option("--json", "as_json", is_flag=True)
        def command(**_: object) -> NoReturn:
            raise failure

        monkeypatch.setattr(type(root), "get_command", lambda *_: command)

    return arrange


def test_a_known_error_is_its_message_and_its_code(here: Any, failing: Any) -> None:
    failing(errors.UnknownLease("L7"))
    ran = here("queue")
    assert (ran.code, ran.out) == (5, "")
    assert ran.err.startswith("leasefs: no lease or waiting claim 'L7'")
    assert ran.err.count("\n") == 1


def test_with_json_the_error_is_an_object_too(here: Any, failing: Any) -> None:
    failing(errors.NotHolder("L7", "bo"))
    ran = here("queue", "--json")
    assert ran.code == 9 - 4
    error = json.loads(ran.out)["error"]
    assert error["code"] == "not-holder"
    assert error["details"] == {"lease": "L7", "holder": "bo"}
    assert error["exit_code"] == 5
    assert error["message"] in ran.err


def test_json_after_a_double_dash_is_not_ours(here: Any) -> None:
    ran = here("clam", "--", "--json")
    assert (ran.code, ran.out) == (2, "")


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), click.Abort()])
def test_an_interrupt_is_quiet(here: Any, failing: Any, failure: BaseException) -> None:
    failing(failure)
    ran = here("queue")
    assert (ran.code, ran.out, ran.err) == (130, "", "")


def test_the_unexpected_is_one_line_and_its_trace_is_kept(
    here: Any, failing: Any, own_world: Path
) -> None:
    failing(ValueError("boom\nand\x1b[2Jmore"))
    ran = here("queue")
    kept = own_world / "s" / "leasefs" / "cli-errors.log"
    assert ran.code == 1
    assert ran.err == (
        f"leasefs: unexpected ValueError: boom\\x0aand\\x1b[2Jmore; the trace is in {kept}\n"
    )
    assert "Traceback" in kept.read_text()


def test_a_full_disk_elsewhere_leaves_the_answer_to_programs(here: Any, failing: Any) -> None:
    """Only where stdout itself is what cannot be written, nobody reads it."""
    failing(OSError(errno.ENOSPC, "No space left on device", "/srv/full/file"))
    ran = here("queue", "--json")
    assert ran.code == 1
    assert json.loads(ran.out)["error"]["code"] == "unexpected"


def test_debug_shows_the_trace(here: Any, failing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEFS_DEBUG", "1")
    failing(ValueError("boom"))
    assert "Traceback" in here("queue").err


def test_a_state_directory_that_cannot_be_used_does_not_hide_the_failure(
    here: Any, failing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    failing(ValueError("boom"))
    ran = here("queue")
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "LEASEFS_DEBUG=1 shows the trace" in ran.err


def test_a_reader_that_went_away_is_quiet() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [INSTALLED, "--help"], stdout=writing, stderr=subprocess.PIPE, check=False, timeout=20
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


def test_output_that_cannot_be_written_is_a_failure() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [INSTALLED, "--help"], stdout=full, stderr=subprocess.PIPE, check=False, timeout=20
        )
    assert done.returncode == 1
    assert done.stderr.startswith(b"leasefs: unexpected OSError: [Errno 28]")
    assert done.stderr.count(b"\n") == 1


def test_no_stdout_at_all_is_no_reason_to_fail() -> None:
    done = subprocess.run(["sh", "-c", f"{INSTALLED} --version >&-"], check=False, timeout=20)
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["clam"], "no command 'clam': did you mean 'claim'?"),
        (["staus"], "did you mean 'status'?"),
        (["xyzzy"], "no command 'xyzzy': `leasefs --help` lists them"),
        (["--jsn"], "no such option"),
        (["-C", "/nowhere", "status"], "cannot go to '/nowhere'"),
        (["completion", "tcsh"], "'tcsh' is not one of 'bash', 'zsh', 'fish'"),
        (["completion"], "missing argument"),
    ],
)
def test_a_wrong_command_line_is_one_helpful_line(
    here: Any, arguments: list[str], words: str
) -> None:
    ran = here(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err
    assert "--help`" in ran.err
    assert ran.err.count("\n") == 1


def test_version(here: Any) -> None:
    ran = here("--version")
    assert (ran.code, ran.out) == (0, "leasefs 0.1.0\n")


def test_no_arguments_is_help(here: Any) -> None:
    ran = here()
    assert (ran.code, ran.err) == (0, "")
    assert "Exit codes:" in ran.out


def test_c_goes_to_a_directory_and_on_from_there(installed: Any, tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    ran = installed("-C", "a", "-C", "b", "-C", "c", "status", cwd=tmp_path)
    assert (ran.code, "cannot go to 'c'" in ran.err) == (2, True)


@pytest.mark.parametrize(
    "arguments", [["status"], ["claim", "x"], ["log"], ["who", "x"], ["run", "--", "true"]]
)
def test_a_directory_that_was_removed_is_no_place_to_stand(
    tmp_path: Path, arguments: list[str]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = 'rmdir "$1" && shift && exec "$@"'
    done = subprocess.run(
        ["sh", "-c", script, "sh", gone, INSTALLED, *arguments],
        cwd=gone,
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "leasefs: the current directory was removed; `cd` to one that exists, or give -C DIR\n"
    )


@pytest.mark.parametrize(
    ("name", "shown"),
    [("na\u00efve", "na\\xefve"), ("\u65e5\u672c", "\\u65e5\\u672c"), ("caf\udce9", "caf\\xe9")],
)
def test_a_name_that_the_locale_cannot_write_is_no_reason_to_fail(
    installed: Any, tmp_path: Path, name: str, shown: str
) -> None:
    ascii_only = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii:strict"}
    ran = installed("unmount", name, env={**os.environ, **ascii_only}, cwd=tmp_path)
    assert (ran.code, ran.out) == (10, "")
    assert ran.err.startswith(f"leasefs: {shown} is not a leasefs mount")
