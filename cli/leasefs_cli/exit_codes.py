"""The exit codes of `leasefs`: the only table. Help pages and docs/EXIT_CODES.md quote it.

A number is never given a second meaning and never used again.
"""

from __future__ import annotations

DONE = 0
UNEXPECTED = 1
USAGE = 2
REFUSED = 3
TIMED_OUT = 4
NOT_YOURS = 5
DIRTY = 6
UNREACHABLE = 7
DEADLOCK = 8
DENIED = 9
MOUNT = 10
PROTOCOL = 11
NOT_EXECUTABLE = 126
NOT_FOUND = 127
SIGNALLED = 128

MEANINGS: dict[int, str] = {
    DONE: "done",
    UNEXPECTED: "unexpected: a fault that leasefs has no better number for",
    USAGE: "usage: the command line or the request is wrong; nothing was changed",
    REFUSED: "refused: somebody else holds it or waits for it, or it is more than one agent may have",
    TIMED_OUT: "timed out waiting: the claim was withdrawn",
    NOT_YOURS: "not yours: not the holder, lease lost, or no such lease",
    DIRTY: "dirty: the release gate: uncommitted work would be left behind, or a check fails",
    UNREACHABLE: "ledger unreachable: nothing new is granted",
    DEADLOCK: "deadlock: waiting would never end",
    DENIED: "denied: you are not who you would have to be",
    MOUNT: "mount: cannot mount or unmount, no mount here, or a dead one",
    PROTOCOL: "protocol: two parts of leasefs do not understand each other; it says which to upgrade",
}
"""What each number means."""

SIGNAL_MEANING = "ended by signal N (130: Ctrl-C, 141: nobody reads the output)"

OF_ERROR: dict[str, int] = {
    "unexpected": UNEXPECTED,
    "invalid": USAGE,
    "bad-configuration": USAGE,
    "bad-path": USAGE,
    "bad-pattern": USAGE,
    "bad-ttl": USAGE,
    "key-reused": USAGE,
    "conflict": REFUSED,
    "over-cap": REFUSED,
    "not-contained": USAGE,
    "timed-out": TIMED_OUT,
    "unknown-lease": NOT_YOURS,
    "not-holder": NOT_YOURS,
    "lost": NOT_YOURS,
    "dirty": DIRTY,
    "checks-failed": DIRTY,
    "unavailable": UNREACHABLE,
    "over-limit": UNREACHABLE,
    "deadlock": DEADLOCK,
    "denied": DENIED,
    "agent-busy": DENIED,
    "session-ended": DENIED,
    "mount": MOUNT,
    "protocol": PROTOCOL,
}
"""The number of each code of `leasefs.core.errors`."""


def exit_code_of(error_code: str) -> int:
    """The exit code of an error's code; one that a newer ledger invented is `UNEXPECTED`."""
    return OF_ERROR.get(error_code, UNEXPECTED)
