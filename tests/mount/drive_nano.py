"""Types `new` at the start of a file in nano and saves; exits 0 if nano says that it wrote."""

from __future__ import annotations

import os
import pty
import select
import signal
import sys
import time

DEADLINE_S = 15.0


def wait_for(
    terminal: int, words: list[bytes], seen: bytes, until: float
) -> tuple[bytes | None, bytes]:
    """The first of `words` that nano shows, and everything it showed so far."""
    while time.monotonic() < until:
        for word in words:
            if word in seen:
                return word, seen
        if not select.select([terminal], [], [], 0.1)[0]:
            continue
        try:
            seen += os.read(terminal, 4096)
        except OSError:
            break
    return None, seen


def main(path: str) -> int:
    """Drive nano; 0 if the file was written."""
    until = time.monotonic() + DEADLINE_S
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm"
        os.execvp("nano", ["nano", "-I", path])
    _, seen = wait_for(terminal, [b"old"], b"", until)
    os.write(terminal, b"new\x0f")
    _, seen = wait_for(terminal, [b"Name to Write"], seen, until)
    os.write(terminal, b"\r")
    word, seen = wait_for(terminal, [b"Wrote", b"rror", b"denied"], seen, until)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return 0 if word == b"Wrote" else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
