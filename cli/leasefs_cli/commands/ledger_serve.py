"""`leasefs ledger serve`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from leasefs.client import paths
from leasefs.client.address import parse_url
from leasefs.core.errors import ClaimConflict, Denied, InvalidRequest, LedgerUnavailable
from leasefs.core.settings import LIMITS
from leasefs_cli.durations import Duration
from leasefs_cli.log_options import logging_options
from leasefs_cli.printing import tell
from leasefs_cli.setting_option import setting_option
from leasefs_cli.teaching import json_option, teaching_command

if TYPE_CHECKING:
    from leasefs.service.limits import Limits


@teaching_command(
    "serve",
    examples=[
        ("leasefs ledger serve", "on the socket that every command of yours looks at"),
        (
            "leasefs ledger serve --socket /run/leasefs/ledger.sock --store /var/lib/leasefs",
            "as a service of its own user; clients set LEASEFS_LEDGER=unix:/run/leasefs/ledger.sock",
        ),
        (
            "leasefs ledger serve --listen :8470 --tls-cert ledger.pem --tls-key ledger.key",
            "for other hosts, too; there LEASEFS_LEDGER=https://ledger.example:8470",
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
@setting_option(
    "ledger.listen",
    "--listen",
    metavar="HOST:PORT",
    multiple=True,
    help="Serve other hosts as well, by TCP with TLS; may be given again. They need a token: `leasefs agent add`.",
)
@setting_option("ledger.tls_cert", "--tls-cert", metavar="FILE", help="The certificate for that.")
@setting_option(
    "ledger.tls_key",
    "--tls-key",
    metavar="FILE",
    help="Its key, of mode 0600. SIGHUP has both read again, and no connection is lost by it.",
)
@setting_option(
    "ledger.tls_client_ca",
    "--tls-client-ca",
    metavar="FILE",
    help="Ask clients by TCP for a certificate of this authority, beside their token.",
)
@click.option(
    "--limit",
    "limits",
    metavar="NAME=NUMBER",
    multiple=True,
    help=f"How much one client may take, 0 for no limit: {', '.join(LIMITS)}; may be given again.",
)
@logging_options
@json_option
def command(
    socket_path: str | None,
    store: str | None,
    idle_s: float | None,
    listen: tuple[str, ...],
    tls_cert: str | None,
    tls_key: str | None,
    tls_client_ca: str | None,
    limits: tuple[str, ...],
    log_level: str,
    log_format: str,
    as_json: bool,
) -> None:
    """Serve a ledger in the foreground until SIGTERM or Ctrl-C.

    One process serves a store; a second one is refused (3). Socket and store lie in directories that
    are yours alone. Messages go to stderr, one line each.

    Started by systemd it serves the socket that is passed to it, says when it is ready, and gives signs of
    life: `leasefs service install` sets that up.
    """
    from leasefs.client.log_setup import log_as
    from leasefs.client.supervisor import supervisor
    from leasefs.service.activation import passed_sockets, path_of
    from leasefs.service.entries import UnknownEvent
    from leasefs.service.places import AddressTaken, UnsafePlace, Unservable
    from leasefs.service.server import Options, serve
    from leasefs.service.tcp_options import TcpOptions
    from leasefs.store.errors import StoreError, StoreLocked
    from leasefs_cli.config_here import tell_strange_variables

    tell_strange_variables()
    log_as("leasefs-ledger", level=log_level, how=log_format)
    try:
        passed = passed_sockets()
        if passed.unix is not None:
            socket_path = path_of(passed.unix)
        else:
            socket_path = os.path.abspath(socket_path) if socket_path else _configured_socket()
        store = os.path.abspath(store) if store else paths.store_dir()
        tcp = TcpOptions(listen, passed.tcp, *map(_whole_path, (tls_cert, tls_key, tls_client_ca)))
        options = Options(
            socket_path, store, idle_s, passed.unix, supervisor(), tcp, _limits(limits)
        )
        serve(options, lambda urls: tell(f"serving on {', '.join(urls)}"))
    except StoreLocked as error:
        raise ClaimConflict(str(error), store=store) from error
    except Unservable as error:
        raise InvalidRequest(str(error)) from error
    except AddressTaken as error:
        raise LedgerUnavailable(str(error)) from error
    except UnsafePlace as error:
        raise Denied(str(error)) from error
    except (StoreError, UnknownEvent, OSError) as error:
        raise LedgerUnavailable(f"cannot serve {store}: {error}", store=store) from error


def _whole_path(path: str | None) -> str:
    return os.path.abspath(os.path.expanduser(path)) if path else ""


def _limits(given: tuple[str, ...]) -> Limits:
    """What is configured, and over that what is given."""
    from leasefs.client import config
    from leasefs.service.limits import Limits, limits_of

    configured = Limits(**{name: config.whole(f"limits.{name}") for name in LIMITS})
    try:
        return limits_of(given, configured)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--limit") from error


def _configured_socket() -> str:
    url, _ = paths.ledger_url()
    path = parse_url(url).socket_path
    if not path:
        raise InvalidRequest(f"{url} is not a Unix socket; give --socket PATH")
    return path
