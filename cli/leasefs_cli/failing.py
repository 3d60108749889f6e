"""From any failure to one line on stderr, JSON on stdout if asked for, and an exit code."""

from __future__ import annotations

import os
import signal
import sys
import traceback

import click

from leasefs.core.errors import InvalidRequest, LeasefsError
from leasefs_cli import exit_codes
from leasefs_cli.interrupts import Terminated
from leasefs_cli.printing import say_json, tell

DEBUG_VARIABLE = "LEASEFS_DEBUG"


def explain(failure: BaseException, arguments: list[str]) -> int:
    """Tell the person what failed; the exit code. Never raises."""
    try:
        return _explain(failure, arguments)
    except BrokenPipeError:
        return _nobody_reads()
    except OSError:
        # stderr itself cannot be written; the code is all that is left to say it with.
        return exit_codes.UNEXPECTED


def _explain(failure: BaseException, arguments: list[str]) -> int:
    if isinstance(failure, SystemExit):
        return failure.code if isinstance(failure.code, int) else exit_codes.DONE
    if isinstance(failure, KeyboardInterrupt | click.Abort):
        return _interrupted(failure, signal.SIGINT)
    if isinstance(failure, Terminated):
        return _interrupted(failure, failure.signal_number)
    if isinstance(failure, BrokenPipeError):
        return _nobody_reads()
    as_json = wants_json(arguments)
    if isinstance(failure, FileNotFoundError) and _stands_nowhere():
        failure = InvalidRequest(
            "the current directory was removed; `cd` to one that exists, or give -C DIR"
        )
    if isinstance(failure, click.ClickException):
        return _usage(failure, as_json)
    if isinstance(failure, LeasefsError):
        return _known(failure, as_json)
    return _unexpected(failure, as_json)


def _stands_nowhere() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def wants_json(arguments: list[str]) -> bool:
    """Whether `--json` stands among our own arguments (those before `--`)."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in own


def _interrupted(failure: BaseException, signal_number: int) -> int:
    _tell_notes(failure)
    return exit_codes.SIGNALLED + signal_number


def _known(failure: LeasefsError, as_json: bool) -> int:
    code = exit_codes.exit_code_of(failure.code)
    _print(failure.code, failure.message, failure.details, code, as_json)
    _tell_notes(failure)
    return code


def _tell_notes(failure: BaseException) -> None:
    for note in getattr(failure, "__notes__", ()):
        tell(note)


def _usage(failure: click.ClickException, as_json: bool) -> int:
    # click sets out choices on lines of their own; a failure is one line.
    message = " ".join(failure.format_message().split()).rstrip(".")
    ctx = getattr(failure, "ctx", None)
    if ctx is not None and ctx.command_path and "--help" not in message:
        message = f"{message} (see `{ctx.command_path} --help`)"
    _print("usage", message[:1].lower() + message[1:], {}, exit_codes.USAGE, as_json)
    return exit_codes.USAGE


def _unexpected(failure: BaseException, as_json: bool) -> int:
    trace = "".join(traceback.format_exception(failure))
    if os.environ.get(DEBUG_VARIABLE):
        sys.stderr.write(trace)
    if isinstance(failure, OSError):
        _forget_stdout_if_it_fails()
    kept = _keep(trace)
    where = f"the trace is in {kept}" if kept else f"{DEBUG_VARIABLE}=1 shows the trace"
    message = f"unexpected {type(failure).__name__}: {failure}; {where}"
    _print("unexpected", message, {"trace": kept}, exit_codes.UNEXPECTED, as_json)
    return exit_codes.UNEXPECTED


def _print(
    code: str, message: str, details: dict[str, object], exit_code: int, as_json: bool
) -> None:
    tell(message)
    if as_json:
        error = {"code": code, "message": message, "details": details, "exit_code": exit_code}
        say_json({"error": error})


def _nobody_reads() -> int:
    _forget_stdout()
    return exit_codes.SIGNALLED + signal.SIGPIPE


def _forget_stdout_if_it_fails() -> None:
    """It may be stdout that cannot be written; where it was something else, a program still reads what failed."""
    try:
        sys.stdout.flush()
    except OSError:
        _forget_stdout()


def _forget_stdout() -> None:
    """Point stdout at /dev/null, or the interpreter complains about it once more at its end."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    os.close(devnull)


def _keep(trace: str) -> str:
    """Append the trace to a file of the state directory; its path, or "" if that cannot be."""
    from leasefs.client.paths import state_dir

    try:
        path = os.path.join(state_dir(), "cli-errors.log")
        with open(path, "a", encoding="utf-8", errors="backslashreplace") as log:
            log.write(trace + "\n")
    except (OSError, LeasefsError):
        return ""
    return path
