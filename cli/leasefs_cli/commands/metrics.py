"""`leasefs metrics`."""

from __future__ import annotations

import os
import tempfile

import click

from leasefs.core.errors import InvalidRequest
from leasefs_cli.exit_codes import DONE
from leasefs_cli.printing import say_json, tell
from leasefs_cli.teaching import json_option, teaching_command

_FOR_ALL = 0o644


@teaching_command(
    "metrics",
    examples=[
        ("leasefs metrics", "what a monitor would see"),
        (
            "leasefs metrics --output /var/lib/node_exporter/leasefs.prom",
            "for the node exporter's textfile collector, every minute from a timer",
        ),
        ("leasefs metrics --listen 127.0.0.1:9469", "for a Prometheus that comes and asks"),
    ],
)
@click.option(
    "--output",
    metavar="FILE",
    help="Write to FILE, which is whole whenever somebody reads it, and readable to all.",
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="Stay, and answer GET /metrics there, over plain HTTP, to whoever can connect. Nothing secret is in it, but "
    "names of agents, mountpoints and territories are.",
)
@json_option
def command(output: str | None, listen: str | None, as_json: bool) -> int:
    """Print the numbers of the ledger and of all mounts here, in Prometheus' text format.

    Those of a mount have its agent and mountpoint as labels, those of a ledger its address; leasefs_mount_up and
    leasefs_ledger_up say who answered. As root it is every mount of the machine, else your own. No ledger is started.
    """
    if listen is not None:
        if output is not None or as_json:
            raise click.UsageError("--listen goes with neither --output nor --json")
        from leasefs_cli.exporter import serve

        serve(listen, lambda url: tell(f"serving {url}"))
        return DONE
    from leasefs_cli.scraping import scraped, text_of

    parts = scraped()
    text = text_of(parts)
    if output is not None:
        _write(output, text)
    if as_json:
        told = [
            {"part": part.kind, **dict(part.labels), "up": part.up, "problem": part.problem}
            for part in parts
        ]
        say_json({"parts": told, "text": text})
    elif output is None:
        click.echo(text, nl=False)
    return DONE


def _write(path: str, text: str) -> None:
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            # A device or a pipe, such as /dev/stdout: never to be replaced by a file.
            with open(path, "w", encoding="utf-8") as out:
                out.write(text)
        else:
            _replace(os.path.realpath(path), text)  # a link stays one
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be written: {error.strerror}") from error


def _replace(path: str, text: str) -> None:
    """Through a draft beside it, whose name no collector takes for its own. Raises OSError."""
    directory, name = os.path.split(path)
    fd, draft = tempfile.mkstemp(prefix=f".{name}.", dir=directory)
    try:
        with open(fd, "w", encoding="utf-8") as file:
            file.write(text)
            os.fchmod(file.fileno(), _FOR_ALL)
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise
