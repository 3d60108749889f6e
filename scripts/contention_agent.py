"""One agent of scripts/bench_contention: does its tasks through its own mount, and says how long it waited.

A line of JSON on stdin tells what to do and when to begin; a line of JSON on stdout tells what came of it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from leasefs.client import api
from leasefs.client.blocking import Link
from leasefs.client.ids import new_key

PATIENCE_S = 120.0


class Claiming:
    """Claims what a task needs, or the whole repository, and gives it back after the task."""

    def __init__(self, told: dict[str, Any]) -> None:
        self._link = Link(told["control"], timeout_s=30.0)
        self._whole = told["mode"] == "lock"

    def begin(self, paths: list[str]) -> str:
        """The lease, once it is held."""
        globs = ["**"] if self._whole else paths
        answer = self._link.send(api.claim(globs, key=new_key(), ttl_s=60.0, wait=True))
        while answer["state"] == "waiting":
            answer = self._link.send(api.lease(answer["lease"], wait_s=60.0))
        if answer["state"] != "granted":
            raise RuntimeError(f"not granted: {answer}")
        return str(answer["lease"])

    def end(self, lease: str) -> None:
        """Give it back."""
        self._link.send(api.release(lease, key=new_key(), require="none"))


def edit(path: str, line: str, work_s: float) -> tuple[float, int]:
    """Append a line to a file that stays open while it is worked on: seconds waited, and second tries."""
    began_s, tries = time.monotonic(), 0
    while True:
        try:
            fd = os.open(path, os.O_WRONLY | os.O_APPEND)
            break
        except OSError:
            tries += 1
            if time.monotonic() - began_s > PATIENCE_S:
                raise
            time.sleep(0.05)
    waited_s = time.monotonic() - began_s
    try:
        time.sleep(work_s)
        os.write(fd, line.encode())
    finally:
        os.close(fd)
    return waited_s, tries


def main() -> int:
    """Do the tasks."""
    told: dict[str, Any] = json.loads(sys.stdin.readline())
    claims = None if told["mode"] == "auto" else Claiming(told)
    waits, again, number = [], 0, 0
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    began_s = time.monotonic()
    for task in told["tasks"]:
        lease, waited_s = "", 0.0
        if claims is not None:
            asked_s = time.monotonic()
            lease = claims.begin([path for path, _ in task])
            waited_s = time.monotonic() - asked_s
        for path, work_s in task:
            number += 1
            line = f"{told['agent']} {number}\n"
            more_s, tries = edit(os.path.join(told["root"], path), line, work_s)
            waited_s, again = waited_s + more_s, again + tries
        if claims is not None:
            claims.end(lease)
        waits.append(waited_s)
    took_s = time.monotonic() - began_s
    print(json.dumps({"took_s": took_s, "waits_s": waits, "again": again, "edits": number}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
