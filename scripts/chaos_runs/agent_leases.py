"""How an agent asks for ground and gives it back: through its mount, and by commands."""

from __future__ import annotations

import json
import os
import subprocess
import time
from typing import TYPE_CHECKING, Any

from chaos_runs.mounts import LEASEFS
from leasefs.client import api, api_scheduling
from leasefs.client.blocking import Link
from leasefs.client.find import facts_of
from leasefs.client.ids import new_key
from leasefs.core.errors import LeasefsError, LedgerUnavailable
from leasefs.core.globs import globs_of
from leasefs.testing.chaos.acts import NO, OK, UNSURE

if TYPE_CHECKING:
    import random
    import threading

    from leasefs.testing.chaos.acts import ActRecorder

_TTLS_S = (2.0, 3.0, 5.0, 8.0)
_REMEMBERED_S = 0.3


class Leases:
    """The leases of one agent, as its mount knows them."""

    def __init__(
        self,
        record: ActRecorder,
        dice: random.Random,
        place: str,
        others: list[str],
        over: threading.Event,
    ) -> None:
        self._record = record
        self._dice = dice
        self._place = place
        self._others = others
        self._over = over
        self._known: list[dict[str, Any]] = []
        self._known_at_s = float("-inf")

    def held(self) -> list[dict[str, Any]]:
        """What the mount held a moment ago; nothing if it does not say."""
        if time.monotonic() - self._known_at_s > _REMEMBERED_S:
            try:
                self._known = self._link().send(api.mount())["leases"]
            except (LeasefsError, OSError):
                self._known = []
            self._known_at_s = time.monotonic()
        return self._known

    def held_of(self, paths: list[str]) -> list[str]:
        """Those of the paths that are on held ground."""
        globs = [
            glob
            for lease in self.held()
            if lease["mode"] == "exclusive"
            for glob in globs_of(tuple(lease["globs"]))
        ]
        return [path for path in paths if any(glob.matches(path.encode()) for glob in globs)]

    def claim(self, globs: list[str]) -> str:
        """Claim, waiting now and then, recalling now and then; the lease, or nothing."""
        if len(self.held()) > 5:
            return ""
        wishes: dict[str, Any] = {"ttl_s": self._dice.choice(_TTLS_S)}
        if self._dice.random() < 0.1:
            wishes["shared"] = True
        if self._dice.random() < 0.6:
            wishes["wait"] = True
            wishes["priority"] = self._dice.choice([0, 0, 0, 20, -20])
            if self._dice.random() < 0.2:
                wishes |= {"recall_within_s": self._dice.choice([0.0, 0.5, 2.0]), "priority": 50}
        return self._claim(globs, self._dice.uniform(0.2, 3.0), wishes)

    def claim_patiently(self, globs: list[str], within_s: float) -> str:
        """As at the end, when everything works again: the lease, or nothing."""
        until_s = time.monotonic() + within_s
        while (left_s := until_s - time.monotonic()) > 0:
            lease = self._claim(globs, left_s, {"ttl_s": 20.0, "wait": True})
            if lease:
                return lease
            time.sleep(0.2)
        return ""

    def claim_by_command(self, globs: list[str]) -> None:
        """As somebody at a shell."""
        number = self._record.begin("claim", told=" ".join(globs))
        wait = ["--wait", f"{self._dice.uniform(0.2, 2):.1f}s"]
        done = self._run("claim", *globs, "--ttl", "3s", *wait, "--json", "--quiet")
        self._known_at_s = float("-inf")
        if done is None or done.returncode:
            self._record.end(number, UNSURE if done is None else NO)
            return
        answer = json.loads(done.stdout)
        self._record.end(number, OK, lease=answer["lease"], token=answer["token"])

    def claim_and_die(self, globs: list[str]) -> None:
        """Begin to wait, and be killed."""
        command = [LEASEFS, "claim", *globs, "--ttl", "3s", "--wait", "30s", "--quiet"]
        number = self._record.begin("killed claim", told=" ".join(globs))
        try:
            child = subprocess.Popen(
                command, cwd=self._place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
        except OSError:
            self._record.end(number, NO)
            return
        self._over.wait(self._dice.uniform(0.05, 1.0))
        child.kill()
        child.wait()
        self._record.end(number, UNSURE)

    def release_some(self) -> None:
        """Give one lease back, one way or another."""
        leases = self.held()
        if leases:
            dirty = self._dice.choice(["keep", "keep", "force", "rescue", "rescue", "refuse"])
            self._release(self._dice.choice(leases)["id"], dirty)

    def give_all_back(self) -> None:
        """At the end. What does not work now is for the next one to find."""
        for _ in range(3):
            self._known_at_s = float("-inf")
            for lease in self.held():
                self._release(lease["id"], "keep")

    def delegate_some(self) -> None:
        """Give a part of a lease to another agent."""
        leases = [one for one in self.held() if one["mode"] == "exclusive"]
        if not leases or not self._others:
            return
        lease = self._dice.choice(leases)
        globs = [self._dice.choice(lease["globs"]).replace("/**", "/1")]
        to = self._dice.choice(self._others)
        number = self._record.begin("delegate", lease=lease["id"], told=f"{globs} to {to}")
        call = api_scheduling.delegate(
            lease["id"], globs, to=to, key=new_key(), ttl_s=3.0, dirty="keep"
        )
        self._sent(number, call)

    def downgrade_some(self) -> None:
        """Share what was held alone."""
        leases = [one for one in self.held() if one["mode"] == "exclusive"]
        if leases:
            lease = self._dice.choice(leases)["id"]
            number = self._record.begin("downgrade", lease=lease)
            self._sent(number, api_scheduling.downgrade(lease, key=new_key()))

    def _claim(self, globs: list[str], patience_s: float, wishes: dict[str, Any]) -> str:
        number = self._record.begin("claim", told=" ".join(globs))
        answer = self._sent(number, api.claim(globs, key=new_key(), **wishes))
        if answer is None:
            return ""
        until_s = time.monotonic() + patience_s
        while answer["state"] == "waiting":
            left_s = until_s - time.monotonic()
            if left_s <= 0 or self._over.is_set():
                self._release(answer["lease"], "keep")
                return ""
            try:
                answer = self._link().send(api.lease(answer["lease"], wait_s=max(0.1, left_s)))
            except (LeasefsError, OSError):
                self._over.wait(0.1)
        return str(answer["lease"]) if answer["state"] == "granted" else ""

    def _release(self, lease: str, dirty: str) -> None:
        number = self._record.begin("release", lease=lease, told=dirty)
        self._sent(number, api.release(lease, key=new_key(), dirty=dirty))

    def _sent(self, number: int, call: api.Call) -> dict[str, Any] | None:
        """The answer, written down; None for a refusal or none."""
        self._known_at_s = float("-inf")
        try:
            answer = self._link().send(call)
        except LedgerUnavailable as error:
            self._record.end(number, UNSURE, told=error.message[:200])
        except (LeasefsError, OSError) as error:
            self._record.end(number, NO, told=str(error)[:200])
        else:
            lease, token = answer.get("lease", ""), answer.get("token", 0)
            about = {"lease": lease} if lease else {}
            self._record.end(number, OK, token=token, **about)
            return answer
        return None

    def _link(self) -> Link:
        """To the mount as it is now: after each restart it has another socket. Raises OSError."""
        found = facts_of(self._place)
        if found is None:
            raise OSError(f"{self._place} is no mount")
        return Link(found.control, timeout_s=15.0)

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str] | None:
        try:
            return subprocess.run(
                [LEASEFS, *arguments],
                cwd=self._place,
                env=os.environ,
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
