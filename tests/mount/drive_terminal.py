"""Drives a full-screen program: python drive_terminal.py STEPS COMMAND...

STEPS is a JSON list of [wait for, type]: what must be on the screen, as plain text, before the keys are
typed. Exits 0 when the program has ended after the last keys, or has shown the last text; 1 if it
says that it was refused, or nothing, in time. What is left of the program is killed.
"""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import sys
import time

DEADLINE_S = 20.0
REFUSED = (b"denied", b"rror", b"E212")


class Screen:
    """What the program has shown since the last keys."""

    def __init__(self, terminal: int) -> None:
        self.terminal = terminal
        self.seen = b""
        self.until = time.monotonic() + DEADLINE_S
        self.open = True

    def shows(self, text: bytes) -> bool:
        """Wait for a text; False if it does not come."""
        while text not in self.seen:
            if not self._goes_on():
                return False
            self._read()
        return True

    def closes(self) -> None:
        """Wait for the program's end."""
        while self._goes_on():
            self._read()

    def _goes_on(self) -> bool:
        refused = any(word in self.seen for word in REFUSED)
        return self.open and not refused and time.monotonic() < self.until

    def type(self, keys: str) -> None:
        """Send keys; what was shown before does not count any more."""
        self.seen = b""
        os.write(self.terminal, keys.encode())

    def _read(self) -> None:
        if not select.select([self.terminal], [], [], 0.1)[0]:
            return
        try:
            data = os.read(self.terminal, 65536)
        except OSError:
            data = b""
        self.open = bool(data)
        self.seen += data
        if b"\x1b[6n" in data:  # where is the cursor? some programs wait for the answer
            os.write(self.terminal, b"\x1b[1;1R")


def main(steps: list[list[str]], command: list[str]) -> int:
    """Run the steps; the exit code."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm"
        os.execvp(command[0], command)
    screen = Screen(terminal)
    try:
        for text, keys in steps:
            if not screen.shows(text.encode()):
                sys.stderr.write(f"no {text!r} in {screen.seen[-2000:]!r}\n")
                return 1
            if keys:
                screen.type(keys)
        if steps[-1][1]:
            screen.closes()
            return 0 if not screen.open else 1
        return 0
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1]), sys.argv[2:]))
