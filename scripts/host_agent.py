"""One agent of scripts/bench_host: claims, reads, edits, looks at its status and commits, until its time is over.

A line of JSON on stdin tells what to do; a line of JSON on stdout tells what came of it.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from leasefs.client import api
from leasefs.client.blocking import Link
from leasefs.client.ids import new_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

GIT = ("git", "-c", "user.name=bench", "-c", "user.email=bench@example.org")
SHARED = "shared.txt"
_EDITS = 3
_READS = 20
_THINKS_S = (4.0, 12.0)


class Work:
    """What one agent does again and again."""

    def __init__(self, told: dict[str, Any]) -> None:
        self._link = Link(told["control"], timeout_s=60.0)
        self._root: str = told["root"]
        self._own: str = told["own"]
        self._files: list[str] = told["files"]
        self._dice: Random = random.Random(told["own"])
        self.done = dict.fromkeys(("edits", "commits", "refused", "wrong"), 0)
        self.latest: dict[str, str] = {}

    def turn(self) -> None:
        """One piece of work under a lease."""
        globs = [f"{self._own}/**", SHARED] if self._dice.random() < 0.1 else [f"{self._own}/**"]
        answer = self._link.send(api.claim(globs, key=new_key(), ttl_s=60.0, wait=True))
        while answer["state"] == "waiting":
            answer = self._link.send(api.lease(answer["lease"], wait_s=30.0))
        for path in self._dice.sample(self._files, _READS):
            with open(f"{self._root}/{path}", encoding="utf-8") as file:
                file.read()
        for _ in range(_EDITS):
            self._save(f"{self._own}/f{self._dice.randrange(20)}.py")
        if not self._refused("README.md"):
            self.done["wrong"] += 1
        self._git("status", "--porcelain")
        self._git("commit", "-q", "-a", "-m", "work")
        self.done["commits"] += 1
        self._link.send(api.release(answer["lease"], key=new_key(), require="none"))

    def check(self) -> None:
        """Count what is not as it was written last."""
        for path, text in self.latest.items():
            with open(f"{self._root}/{path}", encoding="utf-8") as file:
                self.done["wrong"] += file.read() != text

    def _save(self, path: str) -> None:
        """As editors do: beside it, and renamed over it."""
        text = f"value = {self._dice.random()}\n" * 20
        with open(f"{self._root}/{path}.tmp", "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(f"{self._root}/{path}.tmp", f"{self._root}/{path}")
        self.latest[path] = text
        self.done["edits"] += 1

    def _refused(self, path: str) -> bool:
        try:
            with open(f"{self._root}/{path}", "a", encoding="utf-8"):
                return False
        except PermissionError:
            self.done["refused"] += 1
            return True

    def _git(self, *arguments: str) -> None:
        subprocess.run([*GIT, *arguments], cwd=self._root, check=True, stdout=subprocess.DEVNULL)

    def pauses_s(self) -> Iterator[float]:
        """How long it thinks between two turns."""
        while True:
            yield self._dice.uniform(*_THINKS_S)


def main() -> int:
    """Work for as long as told."""
    told: dict[str, Any] = json.loads(sys.stdin.readline())
    work = Work(told)
    ends_s = time.monotonic() + told["for_s"]
    for pause_s in work.pauses_s():
        if time.monotonic() + pause_s > ends_s:
            break
        time.sleep(pause_s)
        work.turn()
    work.check()
    print(json.dumps(work.done))
    return 0


if __name__ == "__main__":
    sys.exit(main())
