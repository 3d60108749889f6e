"""`python -m leasefs.service`: serve one ledger on a Unix socket, one that a supervisor passed on if there is such, and by TCP."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
from typing import TYPE_CHECKING, Any

from leasefs.client import config
from leasefs.client.log_setup import log_as
from leasefs.client.supervisor import supervisor
from leasefs.core.errors import LeasefsError
from leasefs.core.settings import LOG_FORMATS as FORMATS
from leasefs.core.settings import LOG_LEVELS as LEVELS
from leasefs.service.activation import passed_sockets, path_of
from leasefs.service.entries import UnknownEvent
from leasefs.service.limits import Limits, limits_of
from leasefs.service.places import UnsafePlace
from leasefs.service.server import IN_MEMORY, Options, serve
from leasefs.service.tcp_options import TcpOptions
from leasefs.store.errors import StoreError, StoreLocked

if TYPE_CHECKING:
    from collections.abc import Sequence

IDLE_S = 60.0
_log = logging.getLogger("leasefs.service")


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve, and say how it ended.

    0: stopped in order, or embedded and somebody else serves. 1: cannot serve; one line says why. 2: usage.
    """
    given = _parser().parse_args(arguments)
    idle_s = given.idle_s if given.idle_s is not None else (IDLE_S if given.embedded else None)
    # Whoever started an embedded one was told already; a mount that needs it back must have it.
    wrong = config.set_aside_what_is_wrong() if given.embedded else ""
    try:
        log_as("leasefs-ledger", level=given.log_level, how=given.log_format)
        if wrong:
            _log.warning("goes by the defaults: %s", wrong)
        passed = passed_sockets()
        if passed.unix is None and given.socket is None:
            return _failed(UnsafePlace("no socket was passed: name one with --socket PATH"))
        where = path_of(passed.unix) if passed.unix is not None else given.socket
        tcp = TcpOptions(
            tuple(given.listen), passed.tcp, given.tls_cert, given.tls_key, given.tls_client_ca
        )
        options = Options(where, given.store, idle_s, passed.unix, supervisor(), tcp, given.limit)
        serve(options, lambda urls: _tell_ready(given.ready_fd))
    except StoreLocked as error:
        if not given.embedded:
            return _failed(error)
        _log.info("not needed: %s", error)
        return 0
    except (StoreError, UnknownEvent, UnsafePlace, LeasefsError, OSError) as error:
        return _failed(error)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m leasefs.service", description=__doc__)
    parser.add_argument(
        "--socket", help="path of the Unix socket, in a 0700 directory; needed unless one is passed"
    )
    parser.add_argument(
        "--store", required=True, help=f"directory of the log, or {IN_MEMORY} to keep nothing"
    )
    parser.add_argument(
        "--embedded",
        action="store_true",
        help=f"exit 0 if another process serves this store, and when idle for --idle-s ({IDLE_S:g})",
    )
    parser.add_argument("--log-level", default="", choices=LEVELS, help="default: `log.level`")
    parser.add_argument("--log-format", default="", choices=FORMATS, help="default: `log.format`")
    parser.add_argument(
        "--idle-s", type=_seconds, help="exit 0 after so many seconds without any use"
    )
    for option, help_ in (
        ("--tls-cert", "PEM file: the certificate, with those between it and its authority"),
        ("--tls-key", "PEM file: its key, which nobody else may read"),
        ("--tls-client-ca", "PEM file: clients by TCP need a certificate of this authority"),
    ):
        parser.add_argument(option, metavar="FILE", default="", help=help_)
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        action="append",
        default=[],
        help="serve TCP as well, by TLS",
    )
    parser.add_argument(
        "--limit",
        metavar="NAME=NUMBER",
        action=_Limit,
        default=Limits(),
        help="of one client; 0: none",
    )
    parser.add_argument("--ready-fd", type=int, help="descriptor to write `ready` to")
    return parser


class _Limit(argparse.Action):
    """One more limit."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Refuse what is none."""
        try:
            setattr(namespace, self.dest, limits_of([str(values)], getattr(namespace, self.dest)))
        except ValueError as error:
            parser.error(str(error))


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError(text)
    return value


def _tell_ready(fd: int | None) -> None:
    if fd is None:
        return
    # Whoever started us may have left meanwhile; that is no reason to stop.
    with contextlib.suppress(BrokenPipeError):
        os.write(fd, b"ready\n")
    os.close(fd)


def _failed(error: Exception) -> int:
    sys.stderr.write(f"leasefs ledger: {error}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
