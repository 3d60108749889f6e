"""`leasefs ledger stop`."""

from __future__ import annotations

from leasefs.client import api
from leasefs.client.address import parse_url
from leasefs.client.blocking import Link
from leasefs.client.paths import ledger_url
from leasefs.core.errors import InvalidRequest, LedgerUnavailable
from leasefs_cli.printing import say, say_json, tell
from leasefs_cli.server_process import Watched, listener_pid
from leasefs_cli.teaching import json_option, teaching_command

STOP_TIMEOUT_S = 30.0


@teaching_command(
    "stop", examples=[("leasefs ledger stop", "before an update of leasefs, or to move its store")]
)
@json_option
def command(as_json: bool) -> None:
    """Stop the ledger that listens on a Unix socket of this user.

    Nothing is forgotten: leases and queue stand in its log. Mounts go on writing inside leases that they
    still trust, and meet the next ledger when it comes. The next `leasefs` command that needs one starts
    it. Fails (7) if none runs.
    """
    url, _ = ledger_url()
    path = parse_url(url).socket_path
    if not path:
        raise InvalidRequest(f"{url} is not a Unix socket; stop that ledger where it runs")
    live = Link(url).send(api.status())["live_sessions"]
    pid = listener_pid(path)
    if pid is None:
        raise LedgerUnavailable(f"no ledger listens at {url}, so there is none to stop", url=url)
    if live and not as_json:
        tell(
            f"live sessions: {live}; they keep what they hold, and can claim again when a ledger runs"
        )
    with Watched(pid) as process:
        process.terminate()
        if not process.ends_within(STOP_TIMEOUT_S):
            raise LedgerUnavailable(
                f"the ledger (pid {pid}) has not ended within {STOP_TIMEOUT_S:g} s of SIGTERM; see its log",
                pid=pid,
            )
    if as_json:
        say_json({"stopped": pid})
    else:
        say(f"stopped the ledger, pid {pid}")
