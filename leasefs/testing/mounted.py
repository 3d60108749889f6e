"""A mount in a child process, with leases that the test sets.

Run as `python -m leasefs.testing.mounted SOURCE MOUNTPOINT [--lease GLOB]...` it mounts and obeys lines
of JSON on its standard input, answering each with one line of JSON; the first line it prints says that
the mount is ready. `mounted()` is the other side, for fixtures: it starts the child, waits for that
line, and at the end checks that the child ended well and left no mount.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import resource
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import trio

from leasefs.core.errors import LeasefsError
from leasefs.core.held import HeldView
from leasefs.core.lease import Mode
from leasefs.core.paths import text
from leasefs.mount.control_files import control_files
from leasefs.mount.inodes import Node
from leasefs.mount.mountinfo import top_at
from leasefs.mount.mountpoint import MountOptions
from leasefs.mount.refusals import RefusalLog
from leasefs.mount.serve import Served, serve
from leasefs.mount.telling_git import telling_git
from leasefs.testing.few_watches import allow_watches, be_older
from leasefs.testing.static_holdings import StaticHoldings, held
from leasefs.testing.unchecked import check_nothing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path


class Fault(Exception):
    """The fault that a test asked for."""


# -- the child ---------------------------------------------------------------------------------


def _view(holdings: StaticHoldings, command: dict[str, Any]) -> HeldView:
    now_s = holdings.now_s()
    return HeldView(
        held(
            lease["token"],
            *lease["globs"],
            mode=Mode(lease.get("mode", "exclusive")),
            trusted_until_s=now_s + lease.get("trusted_for_s", 1e9),
        )
        for lease in command["leases"]
    )


def _leases(holdings: StaticHoldings, command: dict[str, Any]) -> dict[str, Any]:
    holdings.view = _view(holdings, command)
    return {}


def _confirm(holdings: StaticHoldings, command: dict[str, Any]) -> dict[str, Any]:
    holdings.confirm = _view(holdings, command)
    holdings.confirm_after_s = float(command.get("after_s", 0))
    return {}


def _report(holdings: StaticHoldings, command: dict[str, Any]) -> dict[str, Any]:
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "nodes": sum(type(thing) is Node for thing in gc.get_objects()),
        "resident_kib": _resident_kib(),
        "users": [[token, text(path), pid] for token, path, pid in holdings.users.values()],
        "written": sorted(holdings.written),
        "redirects": holdings.redirects,
        "asked": holdings.asked,
        "refusals": [
            {
                "op": record.op.value,
                "path": text(record.path),
                "reason": record.reason.name,
                "errno": record.errno,
                "pid": record.pid,
                "program": record.program,
            }
            for record in holdings.refusals
        ],
    }


def _resident_kib() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize() // 1024


def _ahead(holdings: StaticHoldings, command: dict[str, Any]) -> dict[str, Any]:
    holdings.ahead_s = float(command["ahead_s"])
    return {}


def _fault(holdings: StaticHoldings, command: dict[str, Any]) -> dict[str, Any]:
    raise Fault("asked for by the test")


_COMMANDS: dict[str, Callable[[StaticHoldings, dict[str, Any]], dict[str, Any]]] = {
    "leases": _leases,
    "confirm": _confirm,
    "report": _report,
    "ahead": _ahead,
    "fault": _fault,
}


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


async def _obey(holdings: StaticHoldings) -> None:
    buffer = b""
    async with trio.lowlevel.FdStream(os.dup(0)) as commands:
        async for data in commands:
            buffer += data
            while b"\n" in buffer:
                line, _, buffer = buffer.partition(b"\n")
                command = json.loads(line)
                _say(_COMMANDS[command["do"]](holdings, command))


async def _run(options: MountOptions, globs: Sequence[str], fsmonitor: bool) -> None:
    holdings = StaticHoldings()
    if globs:
        holdings.hold([held(1, *globs)])
    async with trio.open_nursery() as nursery:

        def redirected(paths: list[str]) -> None:
            holdings.redirects = paths

        def ready() -> None:
            _say({"ready": os.getpid()})
            nursery.start_soon(_obey, holdings)

        refusals = RefusalLog(holdings.refused)
        control = {
            "agent": lambda: options.agent.encode() + b"\n",
            **control_files(holdings, refusals, holdings.kept_by),
        }
        async with telling_git(options.source, wanted=fsmonitor) as telling:
            served = Served(
                holdings, control, ready, refusals, redirected, beforehand=telling.begin
            )
            await serve(options, served)
        nursery.cancel_scope.cancel()


def main() -> None:
    """The child's entry."""
    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("mountpoint")
    parser.add_argument("--agent", default="agent-07")
    parser.add_argument("--lease", action="append", default=[])
    parser.add_argument("--no-xattrs", action="store_true")
    parser.add_argument("--allow-other", action="store_true")
    parser.add_argument("--unmount-within", type=float, default=5.0)
    parser.add_argument("--redirects", action="store_true")
    parser.add_argument("--cpu-latency", default="any")
    parser.add_argument("--unchecked", action="store_true")
    parser.add_argument("--watches")
    parser.add_argument("--descriptors", type=int)
    parser.add_argument("--older-kernel", action="store_true")
    parser.add_argument("--fsmonitor", action="store_true")
    args = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    if args.unchecked:
        check_nothing()
    if args.descriptors is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (args.descriptors, args.descriptors))
    if args.older_kernel:
        be_older()
    if args.watches is not None:
        allow_watches(args.watches)
    options = MountOptions(
        args.source,
        args.mountpoint,
        args.agent,
        allow_other=args.allow_other,
        xattrs=not args.no_xattrs,
        unmount_within_s=args.unmount_within,
        redirects=args.redirects,
        cpu_latency=args.cpu_latency,
    )
    try:
        trio.run(_run, options, args.lease, args.fsmonitor)
    except* LeasefsError as errors:
        _say({"error": str(errors.exceptions[0])})
        sys.exit(1)


# -- the parent --------------------------------------------------------------------------------


@dataclass
class Mounted:
    """A running child. `root` is the mountpoint, `source` the tree as seen from outside."""

    process: subprocess.Popen[bytes]
    source: str
    root: str

    def tell(self, do: str, **details: object) -> dict[str, Any]:
        """Send one command, return the answer."""
        self.command(do, **details)
        return self.answer()

    def command(self, do: str, **details: object) -> None:
        """Send one command that is not answered."""
        _pipe(self.process.stdin).write(json.dumps({"do": do, **details}).encode() + b"\n")
        _pipe(self.process.stdin).flush()

    def answer(self) -> dict[str, Any]:
        """The next line of the child."""
        line = _pipe(self.process.stdout).readline()
        assert line, "the mount's process ended"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def hold(self, *leases: dict[str, Any]) -> None:
        """Replace the leases: dicts of token, globs, and perhaps mode and trusted_for_s."""
        self.tell("leases", leases=leases)

    def report(self) -> dict[str, Any]:
        """What the mount told its holdings, and how many descriptors it has open."""
        return self.tell("report")


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def as_user(user: int) -> list[str]:
    """The beginning of a command line that runs the rest as that user."""
    ids = [f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    needed = os.path.realpath(sys.executable), sys.prefix, os.path.dirname(__file__)
    if not all(_everyone_reaches(path) for path in needed):
        # What runs lies in somebody's home; let the child read it, which gives no right to write.
        ids += ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    return ["setpriv", *ids, "--"]


def _everyone_reaches(path: str) -> bool:
    while path != "/":
        if not os.stat(path).st_mode & 0o001:
            return False
        path = os.path.dirname(path)
    return True


class Pair(NamedTuple):
    """A tree and two mounts of it."""

    source: Path
    mount: Mounted
    other: Mounted


@contextmanager
def mounted(
    source: str, root: str, *flags: str, user: int | None = None, ends_well: bool = True
) -> Iterator[Mounted]:
    """Mount `source` at `root`, as `user` if given; checks the end unless told that it will be bad."""
    command = [sys.executable, "-m", "leasefs.testing.mounted", source, root, *flags]
    if user is not None:
        command = [*as_user(user), *command]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/"
    ) as process:
        child = Mounted(process, source, root)
        try:
            first = child.answer()
            assert "ready" in first, first
            yield child
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(timeout=20)
            left = top_at(os.path.realpath(root))
            if left is not None and left.is_leasefs:
                subprocess.run(["umount", "-l", root], check=True)
            if ends_well:
                assert code == 0, f"the mount's process ended with {code}"
                assert left is None or not left.is_leasefs, f"{root} is still mounted"


if __name__ == "__main__":
    main()
