"""`leasefs ledger serve`."""

from __future__ import annotations

import os

import click

from leasefs.client import paths
from leasefs.client.address import parse_url
from leasefs.core.errors import ClaimConflict, Denied, InvalidRequest, LedgerUnavailable
from leasefs_cli.durations import Duration
from leasefs_cli.printing import tell
from leasefs_cli.teaching import json_option, teaching_command


@teaching_command(
    "serve",
    examples=[
        ("leasefs ledger serve", "on the socket that every command of yours looks at"),
        (
            "leasefs ledger serve --socket /run/leasefs/ledger.sock --store /var/lib/leasefs",
            "as a service of its own user; clients set LEASEFS_LEDGER=unix:/run/leasefs/ledger.sock",
        ),
    ],
)
@click.option(
    "--socket",
    "socket_path",
    metavar="PATH",
    help="Where to listen. Default: the socket of LEASEFS_LEDGER, else this user's own.",
)
@click.option("--store", metavar="DIR", help="Where to keep the log. Default: this user's own.")
@click.option(
    "--idle",
    "idle_s",
    type=Duration(1.0, 30 * 86400.0),
    metavar="DURATION",
    help="End after so long without lease, session or connection. Default: never.",
)
@json_option
def command(
    socket_path: str | None, store: str | None, idle_s: float | None, as_json: bool
) -> None:
    """Serve a ledger in the foreground until SIGTERM or Ctrl-C.

    One process serves a store; a second one is refused (3). Socket and store lie in directories that
    are yours alone. Messages go to stderr, one line each.

    Started by systemd it serves the socket that is passed to it, says when it is ready, and gives signs of
    life: `leasefs service install` sets that up.
    """
    from leasefs.client.supervisor import supervisor
    from leasefs.service.activation import passed_socket, path_of
    from leasefs.service.entries import UnknownEvent
    from leasefs.service.log_lines import log_to_stderr
    from leasefs.service.places import UnsafePlace
    from leasefs.service.server import Options, serve
    from leasefs.store.errors import StoreError, StoreLocked

    log_to_stderr()
    try:
        passed = passed_socket()
        if passed is not None:
            socket_path = path_of(passed)
        else:
            socket_path = os.path.abspath(socket_path) if socket_path else _configured_socket()
        store = os.path.abspath(store) if store else paths.store_dir()
        options = Options(socket_path, store, idle_s, passed, supervisor())
        serve(options, lambda: tell(f"serving on unix:{socket_path}"))
    except StoreLocked as error:
        raise ClaimConflict(str(error), store=store) from error
    except UnsafePlace as error:
        raise Denied(str(error)) from error
    except (StoreError, UnknownEvent, OSError) as error:
        raise LedgerUnavailable(f"cannot serve {store}: {error}", store=store) from error


def _configured_socket() -> str:
    url, _ = paths.ledger_url()
    path = parse_url(url).socket_path
    if not path:
        raise InvalidRequest(f"{url} is not a Unix socket; give --socket PATH")
    return path
