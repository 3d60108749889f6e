"""Every way a request can fail, each with one stable code.

Rules of this file:

* A class per reason, found by `except`; a `code` per class, fixed for ever, that travels over the wire.
* The message is for a person and stands alone: what happened, to which path or lease, who holds it,
  until when, what to do next (P10).
* `details` is for programs: JSON-ready, same facts as the message.
* Nothing here knows an errno, an HTTP status or an exit code. Those tables stand where they are used.
"""

from __future__ import annotations

from typing import ClassVar


class LeasefsError(Exception):
    """Base of all failures that leasefs explains. Never raised itself."""

    code: ClassVar[str] = "unexpected"

    def __init__(self, message: str, **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.details = details

    @classmethod
    def restored(cls, message: str, details: dict[str, object]) -> LeasefsError:
        """The same error on the other side of a wire."""
        error = cls.__new__(cls)
        LeasefsError.__init__(error, message, **details)
        return error


class InvalidRequest(LeasefsError):
    """The request itself is wrong; nothing was changed and repeating it cannot help."""

    code = "invalid"


class BadConfiguration(InvalidRequest):
    """A file of settings, or a variable, says what it must not say."""

    code = "bad-configuration"

    def __init__(self, where: str, key: str, line: int, words: str) -> None:
        """`where` is the file with its line, or the variable; `words` say what is wrong there."""
        super().__init__(f"{where}: {words}", where=where, key=key, line=line)
        self.where = where
        self.words = words


class BadPath(InvalidRequest):
    """A path that no territory can contain."""

    code = "bad-path"

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(
            f"bad path {path!r}: {problem}; give a path relative to the territory's root",
            path=path,
            problem=problem,
        )


class BadPattern(InvalidRequest):
    """A glob that cannot be read, or that can match no path."""

    code = "bad-pattern"

    def __init__(self, pattern: str, position: int, problem: str) -> None:
        shown = pattern if len(pattern) <= 80 else pattern[:77] + "..."
        super().__init__(
            f"bad glob {shown!r} at byte {position}: {problem}",
            pattern=shown,
            position=position,
            problem=problem,
        )


class TtlOutOfRange(InvalidRequest):
    """A TTL below the least or above the greatest that a ledger grants."""

    code = "bad-ttl"

    def __init__(self, ttl_s: float, least_s: float, greatest_s: float) -> None:
        super().__init__(
            f"TTL of {ttl_s:g} s is out of range: ask for {least_s:g} s to {greatest_s:g} s "
            "(a lease in use is renewed by itself, however long the work takes)",
            ttl_s=ttl_s,
            least_s=least_s,
            greatest_s=greatest_s,
        )


class KeyReused(InvalidRequest):
    """An idempotency key that already answered a different request (P6)."""

    code = "key-reused"

    def __init__(self, key: str) -> None:
        super().__init__(
            f"idempotency key {key!r} was already used for a different request; use a new key",
            key=key,
        )


class ClaimConflict(LeasefsError):
    """The claim overlaps what another session holds or waits for, and would not wait."""

    code = "conflict"


class OverCap(LeasefsError):
    """It is more than one agent may have by its territory's admission, or one client by the ledger's limits."""

    code = "over-cap"


class NotContained(InvalidRequest):
    """A part that is to be delegated is not wholly inside the lease: delegation never widens."""

    code = "not-contained"

    def __init__(self, lease_id: str, glob: str, witness: str) -> None:
        super().__init__(
            f"{glob} is not wholly inside lease {lease_id}: {witness!r} would be outside it; delegate less, or claim that "
            "ground first",
            lease=lease_id,
            glob=glob,
            witness=witness,
        )


class WaitTimedOut(LeasefsError):
    """The claim was not granted within the time its caller would wait; it was withdrawn."""

    code = "timed-out"


class Deadlock(LeasefsError):
    """Waiting would close a cycle of waiters (P7)."""

    code = "deadlock"

    def __init__(self, cycle: list[str]) -> None:
        super().__init__(
            "waiting would never end: "
            + " waits for ".join([*cycle, cycle[0]])
            + "; release what you hold, then claim everything in one claim",
            cycle=cycle,
        )


class UnknownLease(LeasefsError):
    """No live lease or waiting claim has this id."""

    code = "unknown-lease"

    def __init__(self, lease_id: str) -> None:
        super().__init__(
            f"no lease or waiting claim {lease_id!r}: it was released, expired, or never existed; "
            "`leasefs leases` lists what is held",
            lease=lease_id,
        )


class NotHolder(LeasefsError):
    """Only the session that holds a lease may renew or release it."""

    code = "not-holder"

    def __init__(self, lease_id: str, holder: str) -> None:
        super().__init__(
            f"lease {lease_id} is held by {holder}, not by you; ask {holder} to release it",
            lease=lease_id,
            holder=holder,
        )


class LeaseLost(LeasefsError):
    """The lease lapsed and somebody else took the ground (P5): its token is fenced."""

    code = "lost"

    def __init__(self, lease_id: str, reason: str) -> None:
        super().__init__(
            f"lease {lease_id} is lost: {reason}; claim again to go on",
            lease=lease_id,
            reason=reason,
        )


class Denied(LeasefsError):
    """The caller is not who it would have to be."""

    code = "denied"


class AgentBusy(Denied):
    """The agent already has a live session in this territory (design: one session per agent)."""

    code = "agent-busy"

    def __init__(self, agent: str, session: str, where: str) -> None:
        super().__init__(
            f"agent {agent!r} already has a live session {session} ({where}); use that one, end it, "
            "choose another name, or ask for its replacement with --replace",
            agent=agent,
            session=session,
            where=where,
        )


class SessionEnded(Denied):
    """The session is not known to the ledger, or was ended."""

    code = "session-ended"

    def __init__(self, session: str, revoked_by: str = "") -> None:
        """`revoked_by` is who revoked the identity that had opened it, if that is why."""
        why = (
            f"{revoked_by} revoked the identity that opened it; ask an operator for a new one (`leasefs agent add`)"
            if revoked_by
            else "it was ended or replaced; open a new one (mount again, or claim again from the shell)"
        )
        super().__init__(f"session {session} is not live: {why}", session=session)


class Dirty(LeasefsError):
    """The release gate: the lease still has intents that its territory wants committed, or pushed (P9)."""

    code = "dirty"

    def __init__(self, lease_id: str, paths: list[str], count: int, *, wanted: str) -> None:
        """`paths` are the first of `count`; `wanted` is what they would have to be."""
        shown = ", ".join(repr(path) for path in paths[:3])
        more = f" and {count - 3} more" if count > 3 else ""
        first = "commit and push" if wanted == "pushed" else "commit"
        super().__init__(
            f"lease {lease_id} has {count} path{'s' if count > 1 else ''} not yet {wanted}: {shown}{more}; {first} "
            "them, or release with --rescue (snapshot, then clear to go), --keep (they stay in the tree, listed as "
            "yours) or --force; `leasefs intents` lists them",
            lease=lease_id,
            paths=paths,
            count=count,
            wanted=wanted,
        )


class ChecksFailed(LeasefsError):
    """The release gate: the project's own checks do not pass."""

    code = "checks-failed"

    def __init__(self, lease_id: str, failed: list[str]) -> None:
        """`failed` says of each what it is, how it ended, and where its output is."""
        super().__init__(
            f"lease {lease_id} is not released, {len(failed)} of the project's checks failed: "
            f"{'; '.join(failed)}; repair that, or release with --force",
            lease=lease_id,
            failed=failed,
        )


class LedgerUnavailable(LeasefsError):
    """The ledger did not answer. Writes go on inside trusted leases; nothing new is granted (P12)."""

    code = "unavailable"


class OverLimit(LedgerUnavailable):
    """The ledger takes no more of this client for the moment; nothing was changed, and later it may be granted.

    For whoever asked it is as if nobody had answered. `details`: `limit` (its name), `most`, `client` (whose limit) and
    `retry_after_s`.
    """

    code = "over-limit"


class ProtocolMismatch(LedgerUnavailable):
    """Two sides of leasefs that do not understand each other; the message says which one to upgrade.

    For whoever asked it is as if nobody had answered: held leases stay trusted for their time, nothing new is granted.
    `details`: `upgrade` (client, mount or ledger), `to` and `sides` (protocol and leasefs of each).
    """

    code = "protocol"


class NotMounted(LeasefsError):
    """The path is not inside a live leasefs mount, or the mount cannot be made."""

    code = "mount"


def _all_below(cls: type[LeasefsError]) -> list[type[LeasefsError]]:
    return [cls, *(found for sub in cls.__subclasses__() for found in _all_below(sub))]


def error_of(code: str, message: str, details: dict[str, object]) -> LeasefsError:
    """The error that `code` names; an unknown code (a newer peer) keeps its message."""
    for cls in _all_below(LeasefsError):
        if cls.code == code:
            return cls.restored(message, details)
    return LeasefsError.restored(message, {**details, "code": code})
