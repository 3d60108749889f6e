"""A process that claims the same ground over and over, for tests of exclusion and order.

    python -m leasefs.testing.contender SOCKET NUMBER ROUNDS DIRECTORY

Each time it holds the lease it creates `DIRECTORY/held` exclusively and removes it again: two holders
at once are two creators of one file, and the second one fails. Prints one line of JSON per grant.
"""

from __future__ import annotations

import json
import os
import sys

from leasefs.client import api
from leasefs.client.blocking import Link
from leasefs.client.ids import new_credentials, new_key


def contend(url: str, number: int, rounds: int, directory: str) -> None:
    """Claim, hold, release, `rounds` times. Raises FileExistsError if somebody else holds it too."""
    credentials = new_credentials()
    link = Link(url, credentials, timeout_s=120.0)
    link.send(
        api.open_session(
            session=credentials.session,
            secret=credentials.secret,
            agent=f"contender-{number}",
            harness="test",
            territory="t",
            kind="shell",
            host="here",
            pid=os.getpid(),
            process="",
        )
    )
    for _ in range(rounds):
        _once(link, directory)


def _once(link: Link, directory: str) -> None:
    answer = link.send(api.claim(["hot/**"], key=new_key(), ttl_s=600.0, wait=True))
    asked = 0
    while answer["state"] == "waiting":
        answer = link.send(api.lease(answer["lease"], wait_s=300.0))
        asked += 1
    if answer["state"] != "granted":
        raise RuntimeError(f"the claim ended: {answer}")
    held = os.path.join(directory, "held")
    os.close(os.open(held, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    print(json.dumps({**answer, "asked": asked}), flush=True)  # noqa: T201 -- read by the test
    os.unlink(held)
    link.send(api.release(answer["lease"], key=new_key()))


if __name__ == "__main__":
    contend(f"unix:{sys.argv[1]}", int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
