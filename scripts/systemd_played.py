"""What the steps of scripts/systemd_trial are written with: an operator, agents, and what must become true."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from systemd_container import Container, Unexpected

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

AGENTS = ("ann", "bob", "cem")
TREE, IN_PLACE = "/srv/repo", "/srv/trees/cem"
WORKSPACE = {"ann": "/srv/ws/ann", "bob": "/srv/ws/bob", "cem": IN_PLACE}
SOURCE = {"ann": TREE, "bob": TREE, "cem": IN_PLACE}
DEADLINE_S = 60.0


class Played:
    """A booted system with three agents on it."""

    def __init__(self, inside: Container) -> None:
        self.inside = inside
        self.checked = 0
        self.began_s = time.monotonic()

    def check(self, what: str, holds: object, detail: object = "") -> None:
        """Say that something is as it must be, or end the trial."""
        if not holds:
            raise Unexpected(f"not so: {what} {detail}")
        self.checked += 1
        print(f"  ok {time.monotonic() - self.began_s:6.1f} s  {what}")

    def until(self, what: str, holds: Callable[[], object]) -> None:
        """Check what becomes true a little later."""
        deadline_s = time.monotonic() + DEADLINE_S
        last: object = ""
        while time.monotonic() < deadline_s:
            try:
                last = holds()
            except Unexpected as error:
                last = error
            else:
                if last:
                    self.check(what, holds=True)
                    return
            time.sleep(0.1)
        raise Unexpected(f"not within {DEADLINE_S:g} s: {what} {last}")

    def unit(self, name: str, field: str) -> str:
        return self.inside.run("systemctl", "show", "--value", f"--property={field}", name).strip()

    def pid(self, name: str) -> int:
        return int(self.unit(name, "MainPID"))

    def active(self, name: str, but: int = 0) -> bool:
        return self.unit(name, "ActiveState") == "active" and self.pid(name) not in {0, but}

    def shell(self, agent: str, command: str) -> subprocess.CompletedProcess[str]:
        """An agent's command, in its mount."""
        return self.inside.try_run("sh", "-c", f"cd {WORKSPACE[agent]} && {command}", user="build")

    def writes(self, agent: str, path: str, text: str) -> bool:
        return self.shell(agent, f"echo {text} >> {path}").returncode == 0

    def claim(self, agent: str, globs: str) -> str:
        done = self.shell(agent, f"leasefs claim '{globs}'")
        if done.returncode:
            raise Unexpected(f"{agent} cannot claim {globs}: {done.stderr}")
        return done.stdout.strip()

    def ask(self, *command: str) -> Any:  # noqa: ANN401 -- JSON of several commands
        """What the ledger says, as the machine's operator hears it."""
        ledger = "LEASEFS_LEDGER=unix:/run/leasefs/ledger.sock"
        return json.loads(self.inside.run("env", ledger, "leasefs", *command, "--json"))

    def held(self) -> dict[str, tuple[str, int]]:
        """Agent and token of each lease."""
        rows = self.ask("leases")
        rows = rows["leases"] if isinstance(rows, dict) else rows
        return {row["lease"]: (row["agent"], row["token"]) for row in rows}

    def uncommitted(self) -> set[str]:
        rows = self.ask("intents")
        rows = rows["intents"] if isinstance(rows, dict) else rows
        return {row["path"] for row in rows}

    def told(self, *matches: str) -> list[dict[str, str]]:
        """The messages of the journal that match, with all their fields."""
        lines = self.inside.run("journalctl", "--no-pager", "-o", "json", *matches).splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def journal(self, name: str) -> str:
        return self.inside.run("journalctl", "--no-pager", "-o", "cat", "-u", name)
