"""A program of checks: each a function of a directory; what it raises is its failure. Prints TAP."""

from __future__ import annotations

import os
import re
import sys
import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def run_checks(checks: list[Callable[[str], None]], directory: str, only: str = "") -> None:
    """Run each check in a directory of its own and in a process of its own, which locks and signals need."""
    chosen = [check for check in checks if re.search(only, check.__name__)]
    for number, check in enumerate(chosen):
        name = check.__name__.replace("_", " ")
        failure = _run_apart(check, os.path.join(directory, f"check{number}"))
        print(f"not ok {name} - {failure}" if failure else f"ok {name}", flush=True)
    print(f"1..{len(chosen)}", flush=True)


def _run_apart(check: Callable[[str], None], directory: str) -> str:
    """What went wrong, in one line; empty if nothing did."""
    os.mkdir(directory)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        status = 1
        try:
            check(directory)
            status = 0
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the check's failure
            where = traceback.extract_tb(error.__traceback__)[-1]
            os.write(
                writer,
                f"{type(error).__name__}: {error} (line {where.lineno}: {where.line})".encode(),
            )
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as said:
        failure = said.read().decode(errors="replace").replace("\n", " ")
    _, status = os.waitpid(child, 0)
    return failure or (f"ended with status {status}" if status else "")


def in_child(work: Callable[[], None]) -> int:
    """Run `work` in a child process; returns its pid. An exception there is exit status 1."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    except Exception:  # noqa: BLE001 - told by the exit status
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def well(pid: int) -> bool:
    """Wait for a child; whether it ended well."""
    return os.waitpid(pid, 0)[1] == 0


def all_well(children: list[int]) -> bool:
    """Wait for all of them; whether each ended well."""
    return sum(well(child) for child in children) == len(children)


def errno_of(call: Callable[[], object]) -> int:
    """The errno with which a call fails; 0 if it does not."""
    try:
        call()
    except OSError as error:
        return error.errno or 0
    return 0


def main(checks: list[Callable[[str], None]]) -> None:
    """The program: a directory, and perhaps a regular expression that chooses checks."""
    run_checks(checks, sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "")
